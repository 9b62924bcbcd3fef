# What shows the machine: lscpu, lsblk, free, ps, top, vmstat, numactl, numastat.
# needs: lscpu lsblk free ps top vmstat numactl numastat mount
lscpu | grep -v 'MHz\|BogoMIPS\|Vulnerab\|Flags\|Model name\|L[123]' | sed 's/  */ /g'
lscpu -p | tail -4; lscpu -C 2>/dev/null | awk '{ print $1 }'; nproc --all; lsblk | wc -l
free | awk 'NR == 1; NR > 1 { print $1, NF }'; ps -e -o comm= | grep -c '^ps$'; ps -o pid,ppid,stat,ni,cls,rtprio,comm= -p 1 | tail -1 | awk '{ print $1, $2, $4, $5, $6 }'
top -b -n 1 | head -7 | tail -2 | head -1 | awk '{ print NF }'; vmstat | head -2 | md5sum; vmstat | tail -1 | wc -w
numactl --hardware | sed 's/[0-9][0-9]* MB/N MB/'; numactl --show | sed 's/ *$//'; numactl --membind=0 --cpunodebind=0 echo bound; numactl --interleave=all echo interleaved; numastat | awk '{ print $1, NF }'
mount | awk '{ print $3, $5 }' | grep -c 'proc\|sysfs\|tmpfs'; cat /proc/version | cut -d' ' -f1; hostname; uptime -p | cut -c1-2; who | wc -l
getconf _NPROCESSORS_ONLN PAGE_SIZE; ulimit -a | sed 's/([^)]*)//' | awk '{ print $1, $2 }' | head -5; findmnt -n -o FSTYPE /proc; lslocks | wc -l; ipcs | wc -l; lsns -t mnt -p $$ 2>/dev/null | wc -l; pidof sh | wc -l; pmap -x $$ | tail -1 | awk '{ print NF }'
