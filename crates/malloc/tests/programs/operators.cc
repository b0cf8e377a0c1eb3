// SPDX-License-Identifier: MIT OR Apache-2.0
// The C++ operators, the new-handler and bad_alloc.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

static int handler_calls;

static void handler()
{
	if (++handler_calls == 3)
		std::set_new_handler(nullptr);
}

struct alignas(256) Wide {
	char bytes[256];
};

int main()
{
	std::vector<std::string> strings;
	for (int i = 0; i < 10000; i++)
		strings.push_back(std::string(static_cast<size_t>(i % 300), 'x'));
	auto wide = std::make_unique<Wide>();
	auto many = std::make_unique<Wide[]>(10);
	if (reinterpret_cast<uintptr_t>(wide.get()) % 256 ||
	    reinterpret_cast<uintptr_t>(many.get()) % 256)
		return 1;
	volatile size_t huge = SIZE_MAX / 2;
	if (operator new(huge, std::nothrow))
		return 2;
	bool caught = false;
	std::set_new_handler(handler);
	try {
		operator delete(operator new(huge));
	} catch (const std::bad_alloc &) {
		caught = true;
	}
	if (!caught || handler_calls != 3)
		return 3;
	try {
		operator delete(operator new(huge, std::align_val_t(64)), std::align_val_t(64));
		return 4;
	} catch (const std::bad_alloc &) {
	}
	int *array = new int[100];
	delete[] array;
	std::puts("ok");
	return 0;
}
