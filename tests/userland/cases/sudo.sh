# sudo, and cron running a job.
# needs: sudo cron crontab
export PATH=/usr/sbin:/sbin:$PATH
mkdir -p /tmp/case && cd /tmp/case && chmod 777 . || exit
sudo -u nobody id -un; sudo -u nobody sh -c 'echo $SUDO_USER; sudo -n true' 2>&1 | sed 's/sudo: //'
echo 'nobody ALL=(root) NOPASSWD: /usr/bin/id' >/etc/sudoers.d/x; chmod 440 /etc/sudoers.d/x
su -s /bin/sh nobody -c 'sudo -n id -un; sudo -n whoami' 2>&1 | sed 's/sudo: //'
echo '* * * * * echo run >>/tmp/case/ran; id -un >>/tmp/case/ran' | crontab -; crontab -l
cron; for i in $(seq 75); do [ -s ran ] && break; sleep 1; done; sleep 1; head -2 ran
