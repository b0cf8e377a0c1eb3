// SPDX-License-Identifier: GPL-2.0-only
/* Contiguitas: /sys/kernel/mm/contiguitas and the debugfs trigger. */
#define pr_fmt(fmt) "contiguitas: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/sched/loadavg.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>
#include "contiguitas.h"

struct ctg_attr {
	struct kobj_attribute attr;
	u32 *value;
	u32 lo, hi;
};

static ssize_t tunable_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct ctg_attr *a = container_of(attr, struct ctg_attr, attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(*a->value));
}

static ssize_t tunable_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t len)
{
	struct ctg_attr *a = container_of(attr, struct ctg_attr, attr);
	u32 value;

	if (kstrtou32(buf, 0, &value) || value < a->lo || value > a->hi) {
		pr_warn_ratelimited("%s takes a number from %u to %u, kept at %u\n",
				    attr->attr.name, a->lo, a->hi, *a->value);
		return -EINVAL;
	}
	WRITE_ONCE(*a->value, value);
	return len;
}

#define CTG_TUNABLE(_name, _field, _lo, _hi) {						\
	.attr = __ATTR(_name, 0644, tunable_show, tunable_store),			\
	.value = &ctg_tunables._field, .lo = _lo, .hi = _hi,				\
}

static struct ctg_attr tunables[] = {
	CTG_TUNABLE(threshold_unmovable_bp, policy.threshold_unmov_bp, 1, CTG_BP_MAX),
	CTG_TUNABLE(threshold_movable_bp, policy.threshold_mov_bp, 1, CTG_BP_MAX),
	CTG_TUNABLE(expand_unmovable_milli, policy.c_ue_milli, 0, 1000000),
	CTG_TUNABLE(expand_movable_milli, policy.c_me_milli, 0, 1000000),
	CTG_TUNABLE(shrink_unmovable_milli, policy.c_us_milli, 0, 1000000),
	CTG_TUNABLE(shrink_movable_milli, policy.c_ms_milli, 0, 1000000),
	CTG_TUNABLE(backoff_base_ms, backoff_base_ms, 1, 60000),
	CTG_TUNABLE(backoff_cap_ms, backoff_cap_ms, 1, 3600000),
};

struct node_dir {
	struct kobject kobj;
	struct contiguitas_node *n;
};

static struct contiguitas_node *to_node(struct kobject *kobj)
{
	return container_of(kobj, struct node_dir, kobj)->n;
}

/* A file of a node: a number made of its state @s. */
#define CTG_NODE_FILE(_name, _mode, _store, _value)					\
static ssize_t _name##_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)	\
{											\
	struct contiguitas_node *n = to_node(kobj);					\
	struct ctg_state s;								\
											\
	ctg_read_state(n, &s);								\
	return sysfs_emit(buf, "%llu\n", (u64)(_value));				\
}											\
static struct kobj_attribute _name##_attr = __ATTR(_name, _mode, _name##_show, _store)

CTG_NODE_FILE(border_pfn, 0444, NULL, READ_ONCE(contiguitas_border[n->nid]));
CTG_NODE_FILE(unmovable_bytes, 0444, NULL, s.unmov_pages << PAGE_SHIFT);
CTG_NODE_FILE(unmovable_free_bytes, 0444, NULL, s.unmov_free_pages << PAGE_SHIFT);
CTG_NODE_FILE(movable_free_bytes, 0444, NULL, s.mov_free_pages << PAGE_SHIFT);
CTG_NODE_FILE(unmovable_low_wmark_bytes, 0444, NULL, s.unmov_low_wmark_pages << PAGE_SHIFT);
CTG_NODE_FILE(movable_low_wmark_bytes, 0444, NULL, s.mov_low_wmark_pages << PAGE_SHIFT);

/* min_bytes and max_bytes bound each other. */
static ssize_t bound_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			   size_t len)
{
	struct contiguitas_node *n = to_node(kobj);
	bool is_min = !strcmp(attr->attr.name, "min_bytes");
	unsigned long *to = is_min ? &n->min_pages : &n->max_pages;
	unsigned long lo = is_min ? CTG_CHUNK : n->min_pages;
	unsigned long hi = is_min ? n->max_pages : n->pages - CTG_CHUNK;
	char *end;
	unsigned long pages = memparse(buf, &end) >> PAGE_SHIFT;

	if (end == buf || (*end && *end != '\n') || pages < lo || pages > hi) {
		pr_warn_ratelimited("node %d: %s takes a size from %lu to %lu bytes, kept at %lu\n",
				    n->nid, attr->attr.name, lo << PAGE_SHIFT, hi << PAGE_SHIFT,
				    *to << PAGE_SHIFT);
		return -EINVAL;
	}
	WRITE_ONCE(*to, ALIGN_DOWN(pages, CTG_CHUNK));
	return len;
}

CTG_NODE_FILE(min_bytes, 0644, bound_store, s.min_pages << PAGE_SHIFT);
CTG_NODE_FILE(max_bytes, 0644, bound_store, s.max_pages << PAGE_SHIFT);

/* The "some" line of a file in /proc/pressure, in that format. */
static ssize_t pressure_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	bool movable = !strcmp(attr->attr.name, "pressure_movable");
	unsigned long avg[3];
	u64 total_ns;

	ctg_stall_read(&to_node(kobj)->stall[movable ? CONTIGUITAS_MOVABLE :
					     CONTIGUITAS_UNMOVABLE], avg, &total_ns);
	return sysfs_emit(buf, "some avg10=%lu.%02lu avg60=%lu.%02lu avg300=%lu.%02lu total=%llu\n",
			  LOAD_INT(avg[0]), LOAD_FRAC(avg[0]), LOAD_INT(avg[1]),
			  LOAD_FRAC(avg[1]), LOAD_INT(avg[2]), LOAD_FRAC(avg[2]),
			  div_u64(total_ns, NSEC_PER_USEC));
}

static struct kobj_attribute pressure_unmovable_attr = __ATTR(pressure_unmovable, 0444,
							      pressure_show, NULL);
static struct kobj_attribute pressure_movable_attr = __ATTR(pressure_movable, 0444,
							    pressure_show, NULL);

static struct attribute *node_attrs[] = {
	&border_pfn_attr.attr,
	&unmovable_bytes_attr.attr,
	&unmovable_free_bytes_attr.attr,
	&movable_free_bytes_attr.attr,
	&unmovable_low_wmark_bytes_attr.attr,
	&movable_low_wmark_bytes_attr.attr,
	&min_bytes_attr.attr,
	&max_bytes_attr.attr,
	&pressure_unmovable_attr.attr,
	&pressure_movable_attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(node);

static void node_dir_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct node_dir, kobj));
}

static const struct kobj_type node_ktype = {
	.release = node_dir_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = node_groups,
};

/*
 * debugfs contiguitas/resize: "<node> <size of the unmovable region>" moves
 * the border there, bounds or not, and fails with what stopped it.
 */
static ssize_t resize_write(struct file *file, const char __user *ubuf, size_t len, loff_t *ppos)
{
	struct contiguitas_node *n;
	unsigned long pages;
	char buf[64], *end;
	unsigned int nid;
	int at = 0;

	if (len >= sizeof(buf))
		return -EINVAL;
	if (copy_from_user(buf, ubuf, len))
		return -EFAULT;
	buf[len] = '\0';
	if (sscanf(buf, "%u %n", &nid, &at) != 1 || !at || nid >= MAX_NUMNODES ||
	    !contiguitas_nodes[nid])
		return -EINVAL;
	n = contiguitas_nodes[nid];
	pages = ALIGN_DOWN(memparse(buf + at, &end) >> PAGE_SHIFT, CTG_CHUNK);
	if (end == buf + at || (*end && *end != '\n') || pages < CTG_CHUNK ||
	    pages > n->pages - CTG_CHUNK)
		return -EINVAL;
	/* Forced: what cannot be emptied is taken as it is, and goes home later. */
	return ctg_resize(n, pages, true) ?: len;
}

static const struct file_operations resize_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = resize_write,
};

static int __init contiguitas_control_init(void)
{
	struct kobject *root;
	struct node_dir *dir;
	int nid, i, ret;

	if (!contiguitas_enabled())
		return 0;
	root = kobject_create_and_add("contiguitas", mm_kobj);
	if (!root)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(tunables); i++) {
		ret = sysfs_create_file(root, &tunables[i].attr.attr);
		if (ret)
			return ret;
	}
	for_each_node_state(nid, N_MEMORY) {
		if (!contiguitas_nodes[nid])
			continue;
		dir = kzalloc(sizeof(*dir), GFP_KERNEL);
		if (!dir)
			return -ENOMEM;
		dir->n = contiguitas_nodes[nid];
		ret = kobject_init_and_add(&dir->kobj, &node_ktype, root, "node%d", nid);
		if (ret) {
			kobject_put(&dir->kobj);
			return ret;
		}
	}
	debugfs_create_file("resize", 0200, debugfs_create_dir("contiguitas", NULL), NULL,
			    &resize_fops);
	return 0;
}
late_initcall(contiguitas_control_init);
