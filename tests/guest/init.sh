#!/bin/busybox sh
# The guest's process 1: finds the drives, mounts a writable root over the host's, runs one script there, powers off.
# Its input is in /boot (disks, environment, script). It writes the script's output and a report to two virtio ports.
export PATH=/bin:/sbin
/bin/busybox --install -s /bin
mkdir -p /dev /proc /sys /boot /host /memory /root
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
ln -sf /bin/busybox /sbin/modprobe # the kernel calls it by this name
for module in @AT_BOOT@; do modprobe "$module" 2>/dev/null; done

port() {
  for name in /sys/class/virtio-ports/*/name; do
    [ "$(cat "$name")" = "$1" ] && echo "/dev/$(basename "$(dirname "$name")")"
  done
}
exec 3>"$(port report)"
stop() { # takes the reason if the guest has failed
  [ $# -eq 0 ] || echo "failed $*" >&3
  sync
  poweroff -f
  sleep 60
}

# cache=loose on /host: the guest may miss changes that the host makes while the guest runs
nine_p() { mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$1" "$2" "$3" || stop "cannot mount $2"; }
nine_p ro,cache=loose,noxattr host /host
nine_p ro boot /boot
mount -t tmpfs -o size=75% memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work root /root || stop "cannot mount root"

ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/0 /dev/stdin
ln -s /proc/self/fd/1 /dev/stdout
ln -s /proc/self/fd/2 /dev/stderr
mkdir -p /dev/pts /dev/shm /root/dev /root/proc /root/sys /root/run /root/tmp /root/share /root/guest/bin /root/usr/lib/modules
mount --bind /dev /root/dev
mount -t devpts pts /root/dev/pts
mount -t tmpfs shm /root/dev/shm
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t debugfs debug /root/sys/kernel/debug
mount -t tmpfs run /root/run # empty, so that programs do not find the host's systemd or udev
mkdir -p /root/run/lock
mount --bind /lib/modules /root/usr/lib/modules
[ -e /root/lib/modules ] || ln -s /usr/lib/modules /root/lib/modules
nine_p rw share /root/share
cp /bin/busybox /root/guest/bin
for applet in modprobe rmmod lsmod; do ln -s busybox /root/guest/bin/$applet; done
cp /boot/script /boot/environment /root/guest
hostname guest
ifconfig lo 127.0.0.1 up

# Finds each drive by its serial, because the kernel's numbers of drives may differ between boots. No udev runs here, so
# the links in /dev/disk/by-id are created with udev's names.
serial_of() {
  if [ -e "$1/device/vpd_pg80" ]; then
    tail -c +5 "$1/device/vpd_pg80" | tr -d ' \0'
  else
    cat "$1/serial" "$1/device/serial" 2>/dev/null | tr -d ' \n'
  fi
}
find_disk() { # serial
  for block in /sys/block/sd* /sys/block/nvme* /sys/block/vd*; do
    [ -e "$block" ] && [ "$(serial_of "$block")" = "$1" ] && { basename "$block"; return; }
  done
  return 1
}
mkdir -p /dev/disk/by-id
while read -r variable serial link; do
  tries=0
  until device=$(find_disk "$serial"); do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || stop "no drive with the serial $serial"
    sleep 0.1
  done
  echo "export $variable=/dev/$device" >>/root/guest/environment
  ln -s "../../$device" "/dev/disk/by-id/$link"
done </boot/disks
echo "booted $(cut -d' ' -f1 /proc/uptime)" >&3

# Through a pipe, because the port can be opened only once and the script may open /dev/stdout
mkfifo /pipe
(cat /pipe >"$(port output)"; touch /flushed) &
chroot /root /bin/bash -c 'set -a; . /guest/environment; set +a; cd "$PROJECT"; exec bash /guest/script' \
  </dev/null >/pipe 2>&1 3>&-
status=$?
tries=0 # processes that the script has left running may keep the pipe open
until [ -e /flushed ] || [ $tries -ge 40 ]; do tries=$((tries + 1)); sleep 0.05; done
echo "exit $status" >&3
stop
