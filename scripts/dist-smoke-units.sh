#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What dist-smoke.sh tries with the units, inside the clean system that systemd has booted: the last
# line says how it ended.
set -uo pipefail
exec >/dist/units.log 2>&1

fail() {
	echo "dist-smoke: units: $*"
	journalctl --no-pager -u 'ample-*' | tail -n 20
	systemctl --force --force poweroff >/dev/null 2>&1
	exit 1
}

scans() { # how many scans the spool has
	find /var/lib/ample/spool -name '*.parquet' 2>/dev/null | wc -l
}

start() { # start UNIT: and what came of it
	systemctl start "$1" || fail "$1 does not start"
}

start ample-agent.service
sleep 3
systemctl --quiet is-active ample-agent.service || fail "the agent has ended"
before=$(scans)
start ample-scan.service
systemctl --quiet is-active ample-agent.service || fail "a scan has stopped the agent"
[[ $(systemctl show -p ExecMainPID --value ample-scan.service) == 0 && $(scans) == "$before" ]] ||
	fail "a scan beside the agent"
echo "  right: a scan of the timer is left out while the agent runs"

systemctl stop ample-agent.service
before=$(scans)
start ample-scan.service
(($(scans) == before + 1)) || fail "no scan without the agent: $before, then $(scans)"
echo "  right: without the agent it scans"

systemctl enable --quiet --now ample-agent.service ample-scan.timer || fail "enable"
DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq ample libample-malloc >/dev/null 2>&1 ||
	fail "apt purge"
! systemctl --quiet is-active ample-agent.service ample-scan.timer || fail "purged, and running"
[[ ! -e /var/lib/ample ]] || fail "the spool is left"
! systemctl cat ample-agent.service >/dev/null 2>&1 || fail "the unit is left"
find /etc/systemd /lib/systemd -name 'ample-*' | grep . &&
	fail "links are left"
echo "  right: purged, the agent has ended and its spool is gone"
echo done
systemctl --force --force poweroff >/dev/null 2>&1
