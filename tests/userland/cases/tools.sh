# strace, gdb with threads, tmux, vi, less.
# needs: strace gdb gcc tmux vi less script
mkdir -p /tmp/case && cd /tmp/case || exit
export TERM=xterm HOME=/tmp/case LC_ALL=C.UTF-8
strace -f -e trace=openat,execve,exit_group,clone3,clone,vfork,wait4 -o log sh -c 'cat /etc/hostname >/dev/null; true'; sed 's/^[0-9]* *//; s/=.*//; s/0x[0-9a-f]*/P/g; s/[0-9][0-9][0-9]*/N/g' log | grep -v ENOENT | cut -c1-50 | sort | uniq -c | sort -rn | head -12
strace -c -o count true; tail -1 count | awk '{ print $NF }'; strace -e inject=getppid:retval=77 sh -c 'echo $PPID' 2>/dev/null | wc -l
cat >t.c <<'X'
static int n; static pthread_barrier_t all;
static void g(long a) { __sync_add_and_fetch(&n, (int)a); }
static void *f(void *a) { pthread_barrier_wait(&all); g((long)a); return a; }
int main(void) { pthread_t t[3]; pthread_barrier_init(&all, 0, 3); for (long i = 0; i < 3; i++) pthread_create(t + i, 0, f, (void *)(i + 1)); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); printf("%d\n", n); return n; }
X
gcc -g -pthread -include pthread.h -include stdio.h -o t t.c && gdb -q -batch -iex 'set debuginfod enabled off' -ex 'break g' -ex 'watch n' -ex run -ex 'print n' -ex 'delete' -ex 'info threads' -ex continue -ex 'kill' ./t 2>&1 | grep -v Switching | grep -c 'Breakpoint 1\|exited with code 06\|Thread'
gdb -q -batch -ex 'catch syscall write' -ex run -ex 'bt 1' -ex 'stepi' -ex 'info registers rip' -ex kill ./t 2>&1 | grep -c 'Catchpoint 1'
sleep 100 & gdb -q -batch -p $! -ex 'info registers rsp' -ex detach 2>&1 | grep -c '^rsp'; kill $!; wait $! 2>/dev/null; echo $?
tmux -L x new-session -d -s s -x 60 -y 10 'sh'; sleep 1; tmux -L x send-keys -t s 'PS1="> "; clear; echo $((6*7)); tty | cut -c1-8; stty size' Enter; sleep 2; tmux -L x capture-pane -p -t s | grep -v '^$'
tmux -L x split-window -t s 'seq 3; sleep 2'; sleep 1; tmux -L x list-panes -t s | wc -l; tmux -L x kill-server; echo "tmux $?"
printf 'one\ntwo\n' >v; printf 'ix\033jdd:wq\n' | vi v >/dev/null 2>&1; cat v
seq 100 | less | tail -1; printf 'q' | script -qc 'less v' /dev/null | tr -cd 'a-z\n' | grep -c one
script -qc 'tty >/dev/null && stty -a | grep -o "speed [0-9]*"; echo yes | read x' /dev/null </dev/null | tr -d '\r'
