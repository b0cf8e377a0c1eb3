// SPDX-License-Identifier: GPL-2.0-only
/* Contiguitas: /sys/kernel/mm/contiguitas. */

#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/sysfs.h>
#include "contiguitas.h"

static struct contiguitas_node *to_node(struct kobject *kobj)
{
	int nid;

	return kstrtoint(kobj->name + strlen("node"), 10, &nid) ? NULL : contiguitas_nodes[nid];
}

/* A file of a node: a number made of its state @s. */
#define CTG_NODE_FILE(_name, _value)							\
static ssize_t _name##_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)	\
{											\
	struct contiguitas_node *n = to_node(kobj);					\
	struct ctg_state s;								\
											\
	ctg_read_state(n, &s);								\
	return sysfs_emit(buf, "%llu\n", (u64)(_value));				\
}											\
static struct kobj_attribute _name##_attr = __ATTR_RO(_name)

CTG_NODE_FILE(border_pfn, READ_ONCE(contiguitas_border[n->nid]));
CTG_NODE_FILE(unmovable_bytes, s.unmov_pages << PAGE_SHIFT);
CTG_NODE_FILE(unmovable_free_bytes, s.unmov_free_pages << PAGE_SHIFT);

CTG_NODE_FILE(min_bytes, s.min_pages << PAGE_SHIFT);
CTG_NODE_FILE(max_bytes, s.max_pages << PAGE_SHIFT);

static struct attribute *node_attrs[] = {
	&border_pfn_attr.attr,
	&unmovable_bytes_attr.attr,
	&unmovable_free_bytes_attr.attr,
	&min_bytes_attr.attr,
	&max_bytes_attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(node);

static int __init contiguitas_control_init(void)
{
	struct kobject *root, *kobj;
	char name[16];
	int nid;

	if (!contiguitas_enabled())
		return 0;
	root = kobject_create_and_add("contiguitas", mm_kobj);
	if (!root)
		return -ENOMEM;
	for_each_node_state(nid, N_MEMORY) {
		if (!contiguitas_nodes[nid])
			continue;
		snprintf(name, sizeof(name), "node%d", nid);
		kobj = kobject_create_and_add(name, root);
		if (!kobj || sysfs_create_groups(kobj, node_groups))
			return -ENOMEM;
	}
	return 0;
}
late_initcall(contiguitas_control_init);
