# SPDX-License-Identifier: GPL-2.0-only
# The kernel's own selftests of mm/, each with a time limit of ample.limit= seconds (200). No
# expectations here: some fail on a stock kernel, too, and kselftest.py compares the two.
# KSFT_SKIP is status 4.
disk
mkdir -p /dev/hugepages
mount -t hugetlbfs hugetlbfs /dev/hugepages
huge=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
cd /usr/lib/kselftest
# kselftest PAGES PROGRAM ARGS...: with that many 2 MB pages in the pool
kselftest() {
	echo $1 > $huge
	shift
	timeout ${limit:-200} ./"$@" > /tmp/kst 2>&1
	status=$?
	failed=$(sed -n 's/^not ok [0-9]* *-* *\([^"#\\]*[^"#\\ ]\).*/"\1"/p' /tmp/kst |
		head -50 | tr '\n' ',')
	emit kselftest "\"test\": \"$*\", \"status\": $status, \"failed\": [${failed%,}]"
	[ $status = 0 ] || tail -3 /tmp/kst | sed "s/^/@@ note $1: /"
}
kselftest 16 gup_longterm
kselftest 0 compaction_test
kselftest 140 map_hugetlb
kselftest 140 hugepage-mmap
kselftest 24 hugetlb-madvise
kselftest 1 hugetlb_fault_after_madv
kselftest 0 transhuge-stress -d 20
kselftest 0 split_huge_page_test
kselftest 0 khugepaged
kselftest 16 migration
echo 0 > $huge
counters counters
