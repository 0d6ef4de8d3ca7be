#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs, starts, upgrades, removes and purges the packages in a clean Debian 12 root, without a network in it. systemd
# does not run there. So packaging/run-unit starts the services by the lines of their units.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/build/packages
root=$out/root
base=$out/bookworm.tar

say() { echo "── $*"; }
fail() { echo "test-packages: $*" >&2; exit 1; }
inside() { unshare --mount --net --pid --fork --mount-proc="$root/proc" chroot "$root" /usr/bin/env -i \
  PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive bash -euc "ip link set lo up; $*"; }

version=$(python3 -c 'import policy.version; print(policy.version.VERSION)')
debs=("$out"/sluice-*_"$version"_*.deb)
[ -e "${debs[0]}" ] || fail "no packages of version $version in $out: run make packages"

[ -e "$base" ] || mmdebstrap --quiet --variant=minbase --include=python3,adduser,libbpf1,iproute2,curl bookworm "$base"
rm -rf "$root"; mkdir -p "$root"; tar -C "$root" -xf "$base" --exclude='./dev/*'
mkdir -p "$root/dev" "$root/packages"; for node in null zero random urandom; do cp -a "/dev/$node" "$root/dev/"; done
mkdir -p "$root/dev/shm"; chmod 1777 "$root/dev/shm"
cp "${debs[@]}" packaging/run-unit "$root/packages/"
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"; chmod +x "$root/usr/sbin/policy-rc.d"

say "install"
inside "dpkg -i /packages/*_${version}_*.deb; sluice --version"
inside 'getent passwd sluice; [ "$(stat -c %U:%a /var/lib/sluice)" = sluice:750 ]'
for unit in controller web; do [ -L "$root/etc/systemd/system/multi-user.target.wants/sluice-$unit.service" ] || fail "$unit is not enabled"; done
for unit in agent port-agent; do [ ! -L "$root/etc/systemd/system/multi-user.target.wants/sluice-$unit.service" ] || fail "$unit is enabled"; done
inside 'for s in controller web agent; do sluice $s --check > /dev/null; done'

start_all() {
  say "start: $1"
  inside 'mkdir -p /run/sluice && chown sluice /run/sluice
    /packages/run-unit sluice-web.service curl -sSf http://127.0.0.1:8080/api/v1/health -o /tmp/health
    /packages/run-unit sluice-controller.service bash -c "exec 3<>/dev/tcp/127.0.0.1/6653"
    test -s /tmp/health; test -s /var/lib/sluice/store.db; test -s /var/lib/sluice/token'
}
start_all "version $version"
token=$(cat "$root/var/lib/sluice/token")

say "upgrade"
echo 'threads = 8' >> "$root/etc/sluice/web.toml"
for deb in "${debs[@]}"; do
  rm -rf "$out/next"; dpkg-deb -R "$deb" "$out/next"
  sed -i "s/${version//./\\.}\\b/$version+next/" "$out/next/DEBIAN/control"
  dpkg-deb --root-owner-group -Znone -b "$out/next" "$root/packages" > /dev/null
done
rm -rf "$out/next"
inside "dpkg -i /packages/*_$version+next_*.deb; dpkg -s sluice-web | grep -qx 'Version: $version+next'"
grep -qx 'threads = 8' "$root/etc/sluice/web.toml" || fail "the upgrade has changed a setting"
start_all "after the upgrade"
[ "$token" = "$(cat "$root/var/lib/sluice/token")" ] || fail "the upgrade has lost the token"

say "remove"
inside 'dpkg -r sluice-controller sluice-web sluice-agent sluice-store sluice-common'
[ -s "$root/var/lib/sluice/store.db" ] || fail "remove has deleted the store"
grep -qx 'threads = 8' "$root/etc/sluice/web.toml" || fail "remove has deleted the settings"
left=$(find "$root/usr/lib/sluice" -type f 2>/dev/null | head -3 || true); [ -z "$left" ] || fail "remove has left $left"

say "purge"
inside 'dpkg -P sluice-controller sluice-web sluice-agent sluice-store sluice-common'
for path in etc/sluice var/lib/sluice usr/lib/sluice run/sluice; do [ ! -e "$root/$path" ] || fail "purge has left /$path: $(find "$root/$path" | head -3)"; done
rm -rf "$root"
say "all is well"
