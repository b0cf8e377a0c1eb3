#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What dist-smoke.sh tries, inside the clean system. Every step prints what it has found right.
set -euo pipefail
cd /dist
export DEBIAN_FRONTEND=noninteractive

fail() {
	echo "dist-smoke: $*" >&2
	exit 1
}

right() {
	echo "  right: $*"
}

everything() { # what is on the disk, without what any installation of anything touches
	local touched=(/proc /run /dev /dist /tmp /home /var/cache /var/log /var/lib/{apt,dpkg,systemd})
	find / -xdev \( -false $(printf -- ' -o -path %s' "${touched[@]}") \) -prune -o -print |
		grep -v '^/etc/\(passwd\|group\|.*shadow\)' |
	sort
}

visitor() { # as the new user, without anything of root's
	runuser -u visitor -- env -i PATH=/usr/bin:/bin HOME=/home/visitor LC_ALL=C.UTF-8 "$@"
}

install_all() { # install_all FILE...: by apt, with what they depend on
	apt-get install -y -qq --no-install-recommends "$@" >/tmp/apt.log 2>&1 || {
		tail -n 20 /tmp/apt.log >&2
		fail "apt cannot install $*"
	}
}

apt-get update -qq >/dev/null
useradd --create-home visitor
everything >/tmp/before

# Installed at an earlier version, then upgraded.
for name in ample libample-malloc; do
	mv "$name.old" "${name}_old.deb"
done
install_all ./ample_old.deb ./libample-malloc_old.deb
rm ./*_old.deb
install_all /dist/*.deb
for name in ample libample-malloc; do
	want=$(dpkg-deb -f "$name"_*.deb Version)
	[[ $(dpkg-query -W -f '${Version} ${Status}' $name) == "$want install ok installed" ]] ||
		fail "$name is not at $want"
	dpkg --verify $name | grep -v '/usr/share/\(doc\|man\)' && fail "$name is not as packed"
done
right "apt installs, and upgrades to $want"

# The command, as an ordinary user.
cd /home/visitor
visitor ample --version | grep -q '^ample ' || fail "no version"
status=0
visitor ample scan >/tmp/scan 2>&1 || status=$?
((status == 2)) && grep -qi root /tmp/scan || fail "scan without rights: exit $status"
right "$(visitor ample --version); a scan without rights says so"
ample scan --reader procfs --format snapshot -o /tmp/host.snap >/dev/null 2>&1 || fail "no snapshot"
chmod 644 /tmp/host.snap
visitor ample scan --snapshot /tmp/host.snap --json >/tmp/scan.json || fail "no scan of a snapshot"
grep -q '"ample.scan/1"' /tmp/scan.json || fail "the scan has no schema"
right "root takes a snapshot, the user scans it"

# The doctor finds the installed library.
status=0
visitor ample doctor --json >/tmp/doctor.json || status=$?
((status <= 1)) || fail "doctor: exit $status"
tr -d ' \n' </tmp/doctor.json | grep -q '"name":"allocator","state":"ok"' ||
	fail "doctor does not find the allocator: $(grep -A4 allocator /tmp/doctor.json)"
right "ample doctor finds the library"

# Manual pages and completions.
visitor ample man /tmp/visitor-man
for page in ample ample-scan ample-agent ample-doctor ample-malloc; do
	[[ -e /tmp/visitor-man/$page.1 ]] || fail "ample man writes no $page.1"
	dpkg-query -L ample libample-malloc | grep -qx "/usr/share/man/man1/$page.1.gz" ||
		fail "no page $page.1"
done
cat >/tmp/complete.sh <<'TRY'
. /usr/share/bash-completion/bash_completion
_load_completion ample 2>/dev/null || __load_completion ample
complete -p ample >/dev/null || exit 1
COMP_WORDS=(ample sca) COMP_CWORD=1 COMP_LINE="ample sca" COMP_POINT=9
_ample ample sca ample
[[ " ${COMPREPLY[*]} " == *" scan "* ]]
TRY
visitor bash /tmp/complete.sh || fail "bash does not complete ample sca"
right "manual pages are there, and bash completes"

# The library: preloaded in three ways, linked once.
library=$(dpkg-query -L libample-malloc | grep '\.so\.0$')
for run in "ample malloc run" "ample-malloc run"; do
	# shellcheck disable=SC2086 # words of a command
	visitor $run -- true >/tmp/run 2>&1 && grep -q '^ample-malloc: bytes' /tmp/run || fail "$run"
done
for name in libample_malloc.so.0 "$library"; do
	visitor env LD_PRELOAD="$name" grep -q libample_malloc /proc/self/maps ||
		fail "LD_PRELOAD=$name"
done
cat >/tmp/use.c <<'TRY'
#include <ample_malloc.h>
#include <stdlib.h>

int main(void)
{
	void *own = calloc(1, 100);

	return !(own && ample_malloc_owns(own) && ample_malloc_cold(100));
}
TRY
gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -o /tmp/use /tmp/use.c -lample_malloc
visitor /tmp/use || fail "the linked program"
right "the library is preloaded and linked"

# The wheel, in an environment that holds nothing else, without a registry.
visitor python3 -m venv /tmp/wheel
visitor /tmp/wheel/bin/pip install --quiet --no-index /dist/ample-*.whl || fail "pip and the wheel"
visitor /tmp/wheel/bin/python /dist/python-smoke.py || fail "the wheel does not work"
right "the wheel is installed, and works alone"

# Units, where they are installed.
systemd-analyze verify --man=no ample-agent.service ample-scan.service ample-scan.timer ||
	fail "systemd does not take the units"
systemctl enable ample-agent.service ample-scan.timer 2>/dev/null
right "systemd takes the units, and enables them"

# Gone.
rm -f /tmp/use
apt-get purge -y -qq ample libample-malloc >/dev/null 2>&1
apt-get autoremove -y -qq --purge >/dev/null 2>&1
everything >/tmp/after
diff /tmp/before /tmp/after || fail "something is left, or more is gone"
right "removed, nothing is left behind"

# For dist-smoke-units.sh.
install_all /dist/*.deb
