# dpkg and apt with a package made here; users and their passwords, su, set-user-id.
# needs: dpkg-deb apt-get useradd su chpasswd
export DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/sbin:/sbin:$PATH
mkdir -p /tmp/case/p/DEBIAN /tmp/case/p/usr/share/thing && cd /tmp/case || exit
printf 'Package: thing\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a thing\n' >p/DEBIAN/control
printf '#!/bin/sh\necho configured "$1"\n' >p/DEBIAN/postinst; chmod 755 p/DEBIAN/postinst
echo hello >p/usr/share/thing/file
dpkg-deb --root-owner-group -b p thing.deb >/dev/null; dpkg -c thing.deb | awk '{ print $1, $2, $6 }'
dpkg -i thing.deb 2>&1 | grep -v 'Reading database\|Selecting'; cat /usr/share/thing/file; dpkg -s thing | grep Status; dpkg -L thing
dpkg -r thing 2>&1 | grep -v 'Reading database'; ls /usr/share/thing 2>&1
apt-get install -y -q ./thing.deb 2>&1 | grep -i 'thing (\|configured'; dpkg -V thing; apt-get purge -y -q thing 2>&1 | grep -c Removing
useradd -m -s /bin/sh alice; echo "alice:secret" | chpasswd; echo $?; getent passwd alice | cut -d: -f1,6,7; ls -ld /home/alice | cut -c1-10
su alice -c 'id -un; cd; pwd; touch mine && stat -c %U mine; cat /etc/shadow' 2>&1; su - alice -c 'echo $HOME $LOGNAME'
cp /usr/bin/id /tmp/case/sid; chmod 4755 /tmp/case/sid; su alice -c '/tmp/case/sid -u'; usermod -aG mail alice; id -nG alice; userdel -r alice 2>/dev/null; echo $?
