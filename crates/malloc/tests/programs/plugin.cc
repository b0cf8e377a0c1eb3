// SPDX-License-Identifier: MIT OR Apache-2.0
// A plugin whose C++ library is loaded for it alone: what fails in it must be thrown in it.
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

static int handler_calls;

static void handler()
{
	if (++handler_calls == 2)
		std::set_new_handler(nullptr);
}

extern "C" int plugin_run(void)
{
	volatile std::size_t huge = SIZE_MAX / 2;
	std::string text(1000, 'x');
	int caught = 0;

	std::set_new_handler(handler);
	try {
		operator delete(operator new(huge));
	} catch (const std::bad_alloc &) {
		caught++;
	}
	try {
		operator delete[](operator new[](huge, std::align_val_t(64)), std::align_val_t(64));
	} catch (const std::bad_alloc &) {
		caught++;
	}
	if (operator new(huge, std::nothrow))
		return 1;
	return caught == 2 && handler_calls == 2 && text.size() == 1000 ? 0 : 2;
}
