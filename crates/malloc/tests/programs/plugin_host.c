/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C program that loads a plugin in C++ (its argument), whose C++ library no other can see. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);

	if (!plugin) {
		puts(dlerror());
		return 3;
	}
	int (*run)(void) = (int (*)(void))dlsym(plugin, "plugin_run");

	if (!run || run())
		return 4;
	puts("ok");
	return 0;
}
