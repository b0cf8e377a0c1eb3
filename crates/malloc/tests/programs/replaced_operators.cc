// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that replaces operator new and operator delete only, in their plain and aligned forms,
// and relies on what the standard says of all other forms: that they call these. Each object has a
// mark before it, so that an object from one operator and a free by another are noticed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

static const uint64_t MARK = 0x5ca1ab1e0ddba11;
static long made, gone;

static void *make(std::size_t bytes, std::size_t align)
{
	if (align < 16)
		align = 16;
	char *begin = static_cast<char *>(std::aligned_alloc(align, align + bytes));
	if (!begin)
		throw std::bad_alloc();
	*reinterpret_cast<uint64_t *>(begin + align - 8) = MARK;
	*reinterpret_cast<uint64_t *>(begin + align - 16) = align;
	made++;
	return begin + align;
}

static void destroy(void *object)
{
	if (!object)
		return;
	uint64_t *words = static_cast<uint64_t *>(object);
	if (words[-1] != MARK) {
		std::puts("an object of another operator");
		std::_Exit(1);
	}
	words[-1] = 0;
	gone++;
	std::free(static_cast<char *>(object) - words[-2]);
}

void *operator new(std::size_t bytes) { return make(bytes, 16); }
void operator delete(void *object) noexcept { destroy(object); }
void *operator new(std::size_t bytes, std::align_val_t align)
{
	return make(bytes, static_cast<std::size_t>(align));
}
void operator delete(void *object, std::align_val_t) noexcept { destroy(object); }

struct alignas(128) Wide {
	char bytes[128];
};

int main()
{
	std::vector<std::string> strings;
	for (int i = 0; i < 2000; i++)
		strings.push_back(std::string(static_cast<size_t>(i % 300), 'x'));
	delete new int(1);
	delete[] new int[100];
	delete new Wide;
	delete[] new Wide[10];
	std::align_val_t align{64};
	volatile size_t bytes = 100;
	// Every form with every other that may follow it.
	operator delete(operator new(bytes, std::nothrow), std::nothrow);
	operator delete[](operator new[](bytes, std::nothrow), std::nothrow);
	operator delete(operator new(bytes), bytes);
	operator delete[](operator new[](bytes), bytes);
	operator delete(operator new(bytes, align, std::nothrow), align, std::nothrow);
	operator delete[](operator new[](bytes, align, std::nothrow), align, std::nothrow);
	operator delete(operator new(bytes, align), bytes, align);
	operator delete[](operator new[](bytes, align), bytes, align);
	volatile size_t huge = SIZE_MAX / 2;
	if (operator new(huge, std::nothrow) || operator new[](huge, std::nothrow))
		return 2;
	strings.clear();
	strings.shrink_to_fit();
	if (made != gone) {
		std::printf("%ld made, %ld gone\n", made, gone);
		return 3;
	}
	std::puts("ok");
	return 0;
}
