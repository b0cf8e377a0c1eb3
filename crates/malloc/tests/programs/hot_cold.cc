// SPDX-License-Identifier: MIT OR Apache-2.0
// operator new with a hint, in all forms, and ample_malloc_cold: cold objects lie on hugepages on
// which no other object lies, keep what is written to them, and are freed by any delete, on any
// thread, in the child of a fork. Usage: hot_cold [same], where cold objects may lie among others.
#include "../../include/ample_malloc.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

enum class __hot_cold_t : uint8_t {};
void *operator new(size_t, __hot_cold_t);
void *operator new(size_t, const std::nothrow_t &, __hot_cold_t) noexcept;
void *operator new(size_t, std::align_val_t, __hot_cold_t);
void *operator new(size_t, std::align_val_t, const std::nothrow_t &, __hot_cold_t) noexcept;
void *operator new[](size_t, __hot_cold_t);
void *operator new[](size_t, const std::nothrow_t &, __hot_cold_t) noexcept;
void *operator new[](size_t, std::align_val_t, __hot_cold_t);
void *operator new[](size_t, std::align_val_t, const std::nothrow_t &, __hot_cold_t) noexcept;
struct sized {
	void *object;
	size_t bytes;
};
extern "C" sized __size_returning_new(size_t);
extern "C" sized __size_returning_new_hot_cold(size_t, __hot_cold_t);
extern "C" sized __size_returning_new_aligned(size_t, std::align_val_t);
extern "C" sized __size_returning_new_aligned_hot_cold(size_t, std::align_val_t, __hot_cold_t);

#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition)) {                                                       \
			printf("line %d: %s\n", __LINE__, #condition);                    \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

static const std::align_val_t ALIGN{128};

static void *make(int form, size_t bytes, __hot_cold_t hint)
{
	switch (form % 10) {
	case 0: return operator new(bytes, hint);
	case 1: return operator new(bytes, std::nothrow, hint);
	case 2: return operator new(bytes, ALIGN, hint);
	case 3: return operator new(bytes, ALIGN, std::nothrow, hint);
	case 4: return operator new[](bytes, hint);
	case 5: return operator new[](bytes, std::nothrow, hint);
	case 6: return operator new[](bytes, ALIGN, hint);
	case 7: return operator new[](bytes, ALIGN, std::nothrow, hint);
	case 8: return __size_returning_new_hot_cold(bytes, hint).object;
	default: return __size_returning_new_aligned_hot_cold(bytes, ALIGN, hint).object;
	}
}

static void destroy(int form, void *object)
{
	switch (form % 10) {
	case 2: case 3: case 9: return operator delete(object, ALIGN);
	case 4: case 5: return operator delete[](object);
	case 6: case 7: return operator delete[](object, ALIGN);
	default: return operator delete(object);
	}
}

struct object {
	char *bytes;
	size_t size;
	int form;
	bool cold;
};

static std::vector<object> fill(int count)
{
	std::vector<object> all;

	for (int i = 0; i < count; i++) {
		size_t size = 16 + (size_t)i * 7919 % (i % 50 ? 3000 : 200000);
		bool cold = i % 3;
		auto hint = __hot_cold_t(cold ? i % 128 : 128 + i % 128);
		auto bytes = (char *)make(i, size, hint);

		CHECK(bytes && malloc_usable_size(bytes) >= size);
		memset(bytes, i, size);
		all.push_back({bytes, size, i, cold});
	}
	return all;
}

static void check_and_free(std::vector<object> &all, size_t from, size_t step)
{
	for (size_t i = from; i < all.size(); i += step) {
		object &one = all[i];

		for (size_t at = 0; at < one.size; at += 61)
			CHECK(one.bytes[at] == (char)one.form);
		destroy(one.form, one.bytes);
	}
}

/* Native pages with hot objects, where one object in 16 is hot. */
static size_t hot_pages(__hot_cold_t hint_of_others)
{
	std::set<uintptr_t> pages;
	std::vector<void *> all;

	for (int i = 0; i < 32000; i++) {
		all.push_back(operator new(512, i % 16 ? hint_of_others : __hot_cold_t(254)));
		if (i % 16 == 0)
			pages.insert((uintptr_t)all.back() >> 12);
	}
	for (void *object : all)
		operator delete(object);
	return pages.size();
}

int main(int count, char **)
{
	if (count == 1) {
		size_t with = hot_pages(__hot_cold_t(1)), without = hot_pages(__hot_cold_t(200));

		printf("hot pages: %zu, without hints %zu\n", with, without);
		CHECK(without > 5 * with);
	}
	/* The first hugepages are shared by all. */
	auto before = fill(40000);
	auto all = fill(40000);

	if (count == 1) {
		std::set<uintptr_t> hot, cold;
		size_t mixed = 0;

		for (auto &one : all)
			(one.cold ? cold : hot).insert((uintptr_t)one.bytes >> 21);
		for (uintptr_t hugepage : cold)
			mixed += hot.count(hugepage);
		/* What was shared before is filled up. */
		printf("%zu cold, %zu hot, %zu of both\n", cold.size(), hot.size(), mixed);
		CHECK(cold.size() > 10 && mixed <= 18);
	}
	sized one = __size_returning_new(100), other = __size_returning_new_aligned(100, ALIGN);
	CHECK(one.bytes >= 100 && other.bytes >= 100 && (uintptr_t)other.object % 128 == 0);
	operator delete(one.object);
	operator delete(other.object, ALIGN);
	pid_t child = fork();
	if (!child) {
		check_and_free(all, 0, 1);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	std::thread thread([&] { check_and_free(all, 0, 2); });
	check_and_free(all, 1, 2);
	thread.join();
	check_and_free(before, 0, 1);
	char *kept = (char *)ample_malloc_cold(1000);
	CHECK(kept && ample_malloc_owns(kept));
	memset(kept, 7, 1000);
	kept = (char *)realloc(kept, 100000);
	CHECK(kept && kept[0] == 7 && kept[999] == 7);
	free(kept);
	bool thrown = false;
	try {
		make(0, SIZE_MAX / 2, __hot_cold_t(0));
	} catch (std::bad_alloc &) {
		thrown = true;
	}
	CHECK(thrown && !make(1, SIZE_MAX / 2, __hot_cold_t(0)));
	puts("ok");
	return 0;
}
