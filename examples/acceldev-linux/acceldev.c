// SPDX-License-Identifier: MIT
/*
 * A Linux driver for Acceldev, written from the device's document alone.
 *
 * Every open of /dev/acceldevN is a context of the device. Buffers are files of their own; each keeps its context, and
 * the context its device, until the last of them is closed. Commands go straight into the device's queue; where it is
 * full, a device FENCE tells when it is empty again. The records in DMA memory are the only copy of the fence counters
 * and errors, so that nothing depends on how many interrupts arrive.
 */
#include <linux/anon_inodes.h>
#include <linux/build_bug.h>
#include <linux/cdev.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "acceldev_regs.h"
#include "acceldev_uapi.h"

#define NAME "acceldev"
#define MAX_DEVICES 256
#define TABLE_ENTRIES (ACCELDEV_PAGE_SIZE / sizeof(__le32))
#define FENCE_TIMEOUT (30 * HZ)

struct acceldev {
	struct kref ref;
	struct pci_dev *pdev;
	void __iomem *bar;
	struct cdev *cdev;
	int minor;
	struct mutex lock; /* the queue, `gone`, `fence` */
	bool gone;	   /* the device is unplugged: touch it no more */
	u32 fence;	   /* last device FENCE submitted */
	struct ida contexts;
	wait_queue_head_t wait;
	struct acceldev_context_record *records;
	dma_addr_t records_dma;
};

struct acceldev_context {
	struct kref ref;
	struct acceldev *dev;
	int id;
	struct ida slots;
};

struct acceldev_buffer {
	struct acceldev_context *ctx;
	enum acceldev_buffer_type type;
	int slot; /* of data buffers */
	size_t size;
	unsigned int n_pages;
	__le32 *table;
	dma_addr_t table_dma;
	struct page *pages[TABLE_ENTRIES];
	dma_addr_t pages_dma[TABLE_ENTRIES];
};

static dev_t first_number;
static DEFINE_IDA(minors);
static DEFINE_MUTEX(devices_lock);
static struct acceldev *devices[MAX_DEVICES];

static const struct class acceldev_class = { .name = NAME };

/* ---- the device ---------------------------------------------------------------------------------------------- */

static u32 reg_read(struct acceldev *dev, u32 offset)
{
	return ioread32(dev->bar + offset);
}

static void reg_write(struct acceldev *dev, u32 offset, u32 value)
{
	iowrite32(value, dev->bar + offset);
}

static void feed(struct acceldev *dev, const u32 *words)
{
	int i;

	for (i = 0; i < ACCELDEV_CMD_WORDS; i++)
		reg_write(dev, ACCELDEV_CMD_MANUAL_FEED + 4 * i, words[i]);
}

static bool fence_reached(struct acceldev *dev, u32 fence)
{
	return READ_ONCE(dev->gone) || (s32)(reg_read(dev, ACCELDEV_CMD_FENCE_LAST) - fence) >= 0;
}

/* Wait until everything submitted so far is processed. The queue must have room; `lock` is held. */
static int drain(struct acceldev *dev)
{
	u32 words[ACCELDEV_CMD_WORDS] = { ACCELDEV_CMD_FENCE, ++dev->fence };

	/* Before the FENCE, or the interrupt may be missed. */
	reg_write(dev, ACCELDEV_CMD_FENCE_WAIT, dev->fence);
	feed(dev, words);
	if (!wait_event_timeout(dev->wait, fence_reached(dev, dev->fence), FENCE_TIMEOUT)) {
		dev_err(&dev->pdev->dev, "fence %u is not reached\n", dev->fence);
		return -EIO;
	}
	return dev->gone ? -ENODEV : 0;
}

/* Submit a command; the last place of the queue is kept for the FENCE that empties it. `lock` is held. */
static int submit(struct acceldev *dev, const u32 *words)
{
	if (dev->gone)
		return -ENODEV;
	if (reg_read(dev, ACCELDEV_CMD_MANUAL_FREE) < 2) {
		int err = drain(dev);

		if (err)
			return err;
	}
	feed(dev, words);
	return 0;
}

static irqreturn_t acceldev_irq(int irq, void *opaque)
{
	struct acceldev *dev = opaque;
	u32 active = reg_read(dev, ACCELDEV_INTR);

	if (!active || active == ~0u) /* a neighbour's, or the device is unplugged */
		return IRQ_NONE;
	reg_write(dev, ACCELDEV_INTR, active);
	/* Writes are posted: what is counted from here on must raise again, so make sure that this one has arrived. */
	reg_read(dev, ACCELDEV_INTR);
	wake_up_all(&dev->wait);
	return IRQ_HANDLED;
}

static void device_free(struct kref *ref)
{
	struct acceldev *dev = container_of(ref, struct acceldev, ref);

	dma_free_coherent(&dev->pdev->dev, ACCELDEV_MAX_CONTEXTS * sizeof(*dev->records), dev->records,
			  dev->records_dma);
	ida_destroy(&dev->contexts);
	ida_free(&minors, dev->minor);
	pci_dev_put(dev->pdev);
	kfree(dev);
}

/* ---- contexts ------------------------------------------------------------------------------------------------ */

static bool in_error(struct acceldev_context *ctx)
{
	return READ_ONCE(ctx->dev->records[ctx->id].status) & ACCELDEV_STATUS_ERROR;
}

static void context_free(struct kref *ref)
{
	struct acceldev_context *ctx = container_of(ref, struct acceldev_context, ref);
	struct acceldev *dev = ctx->dev;

	/* All buffers are gone, and each has waited for the device. */
	memset(&dev->records[ctx->id], 0, sizeof(dev->records[ctx->id]));
	ida_destroy(&ctx->slots);
	ida_free(&dev->contexts, ctx->id);
	kref_put(&dev->ref, device_free);
	kfree(ctx);
}

static int acceldev_open(struct inode *inode, struct file *file)
{
	struct acceldev_context *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL);
	struct acceldev *dev;

	if (!ctx)
		return -ENOMEM;
	mutex_lock(&devices_lock);
	dev = devices[iminor(inode)];
	if (dev)
		kref_get(&dev->ref);
	mutex_unlock(&devices_lock);
	if (!dev) {
		kfree(ctx);
		return -ENODEV;
	}
	ctx->id = ida_alloc_max(&dev->contexts, ACCELDEV_MAX_CONTEXTS - 1, GFP_KERNEL);
	if (ctx->id < 0) {
		int err = ctx->id == -ENOSPC ? -EBUSY : ctx->id;

		kref_put(&dev->ref, device_free);
		kfree(ctx);
		return err;
	}
	kref_init(&ctx->ref);
	ida_init(&ctx->slots);
	ctx->dev = dev;
	file->private_data = ctx;
	return nonseekable_open(inode, file);
}

static int acceldev_release(struct inode *inode, struct file *file)
{
	struct acceldev_context *ctx = file->private_data;

	kref_put(&ctx->ref, context_free);
	return 0;
}

/* ---- buffers ------------------------------------------------------------------------------------------------- */

static void buffer_pages_free(struct acceldev_buffer *buffer)
{
	struct device *dev = &buffer->ctx->dev->pdev->dev;
	unsigned int i;

	for (i = 0; i < buffer->n_pages; i++)
		dma_free_pages(dev, ACCELDEV_PAGE_SIZE, buffer->pages[i], buffer->pages_dma[i], DMA_BIDIRECTIONAL);
	if (buffer->table)
		dma_free_coherent(dev, ACCELDEV_PAGE_SIZE, buffer->table, buffer->table_dma);
}

static int buffer_pages_alloc(struct acceldev_buffer *buffer)
{
	struct device *dev = &buffer->ctx->dev->pdev->dev;
	unsigned int wanted = DIV_ROUND_UP(buffer->size, ACCELDEV_PAGE_SIZE);

	buffer->table = dma_alloc_coherent(dev, ACCELDEV_PAGE_SIZE, &buffer->table_dma, GFP_KERNEL);
	if (!buffer->table)
		return -ENOMEM;
	while (buffer->n_pages < wanted) {
		unsigned int i = buffer->n_pages;

		buffer->pages[i] = dma_alloc_pages(dev, ACCELDEV_PAGE_SIZE, &buffer->pages_dma[i], DMA_BIDIRECTIONAL,
						   GFP_KERNEL | __GFP_ZERO);
		if (!buffer->pages[i])
			return -ENOMEM;
		buffer->n_pages++;
		buffer->table[i] = cpu_to_le32((u32)(buffer->pages_dma[i] >> 12) << 4 | ACCELDEV_PTE_PRESENT);
	}
	return 0;
}

/* Bind the slot to the buffer's page table, or to nothing and wait until the device has forgotten it. */
static int bind_slot(struct acceldev_buffer *buffer, dma_addr_t table)
{
	struct acceldev_context *ctx = buffer->ctx;
	u32 words[ACCELDEV_CMD_WORDS] = { ACCELDEV_CMD_CONTEXT(ACCELDEV_CMD_BIND_SLOT, ctx->id), buffer->slot,
					  lower_32_bits(table), upper_32_bits(table) };

	return submit(ctx->dev, words);
}

static int buffer_release(struct inode *inode, struct file *file)
{
	struct acceldev_buffer *buffer = file->private_data;
	struct acceldev_context *ctx = buffer->ctx;
	struct acceldev *dev = ctx->dev;
	int err = 0;

	mutex_lock(&dev->lock);
	if (!dev->gone && buffer->type == ACCELDEV_BUFFER_DATA)
		err = bind_slot(buffer, 0);
	if (!dev->gone && !err)
		err = drain(dev); /* code too: a RUN may be reading it */
	mutex_unlock(&dev->lock);
	if (err && err != -ENODEV) {
		/* The device may still use it: better lost than given to somebody else. */
		dev_err(&dev->pdev->dev, "a buffer of context %d is never freed\n", ctx->id);
		return 0;
	}
	if (buffer->type == ACCELDEV_BUFFER_DATA)
		ida_free(&ctx->slots, buffer->slot);
	buffer_pages_free(buffer);
	kvfree(buffer);
	kref_put(&ctx->ref, context_free);
	return 0;
}

static vm_fault_t buffer_fault(struct vm_fault *vmf)
{
	struct acceldev_buffer *buffer = vmf->vma->vm_file->private_data;

	if (vmf->pgoff >= buffer->n_pages)
		return VM_FAULT_SIGBUS;
	vmf->page = buffer->pages[vmf->pgoff];
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct buffer_vm_ops = { .fault = buffer_fault };

static int buffer_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct acceldev_buffer *buffer = file->private_data;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL; /* a private copy would not be what the device sees */
	if (vma->vm_pgoff + vma_pages(vma) > buffer->n_pages)
		return -EINVAL;
	vma->vm_ops = &buffer_vm_ops;
	return 0;
}

static const struct file_operations buffer_fops = {
	.owner = THIS_MODULE,
	.release = buffer_release,
	.mmap = buffer_mmap,
};

static int buffer_attach(struct acceldev_buffer *buffer)
{
	struct acceldev_context *ctx = buffer->ctx;
	int err;

	if (buffer->type != ACCELDEV_BUFFER_DATA)
		return 0;
	buffer->slot = ida_alloc_max(&ctx->slots, ACCELDEV_NUM_BUFFERS - 1, GFP_KERNEL);
	if (buffer->slot < 0)
		return buffer->slot;
	mutex_lock(&ctx->dev->lock);
	err = bind_slot(buffer, buffer->table_dma);
	mutex_unlock(&ctx->dev->lock);
	if (err)
		ida_free(&ctx->slots, buffer->slot);
	return err;
}

static long create_buffer(struct acceldev_context *ctx, struct acceldev_create_buffer __user *user)
{
	struct acceldev_create_buffer arg;
	struct acceldev_create_buffer_result result = { 0 };
	struct acceldev_buffer *buffer;
	struct file *file;
	int fd, err;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (arg.size < 1 || arg.size > ACCELDEV_BUFFER_MAX || arg.type > ACCELDEV_BUFFER_DATA)
		return -EINVAL;
	buffer = kvzalloc(sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		return -ENOMEM;
	buffer->ctx = ctx;
	buffer->type = arg.type;
	buffer->size = arg.size;
	err = buffer_pages_alloc(buffer);
	if (err)
		goto free;
	err = buffer_attach(buffer);
	if (err)
		goto free;
	kref_get(&ctx->ref);
	file = anon_inode_getfile("[" NAME "]", &buffer_fops, buffer, O_RDWR);
	if (IS_ERR(file)) {
		err = PTR_ERR(file);
		kref_put(&ctx->ref, context_free);
		mutex_lock(&ctx->dev->lock);
		if (arg.type == ACCELDEV_BUFFER_DATA && !bind_slot(buffer, 0))
			drain(ctx->dev);
		mutex_unlock(&ctx->dev->lock);
		if (arg.type == ACCELDEV_BUFFER_DATA)
			ida_free(&ctx->slots, buffer->slot);
		goto free;
	}
	/* From here on closing the file frees everything. */
	result.buffer_slot = buffer->slot;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd >= 0 && arg.type == ACCELDEV_BUFFER_DATA && copy_to_user(arg.result, &result, sizeof(result))) {
		put_unused_fd(fd);
		fd = -EFAULT;
	}
	if (fd < 0) {
		fput(file);
		return fd;
	}
	fd_install(fd, file);
	return fd;
free:
	buffer_pages_free(buffer);
	kvfree(buffer);
	return err;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static long run(struct acceldev_context *ctx, struct acceldev_run __user *user)
{
	struct acceldev_run arg;
	struct acceldev_buffer *code;
	struct file *file;
	long err = -EINVAL;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	file = fget(arg.cfd);
	if (!file)
		return -EBADF;
	if (file->f_op != &buffer_fops || arg.addr % sizeof(u32))
		goto out;
	code = file->private_data;
	if (code->ctx != ctx || code->type != ACCELDEV_BUFFER_CODE)
		goto out;
	mutex_lock(&ctx->dev->lock);
	if (in_error(ctx)) {
		err = -EIO;
	} else {
		u32 words[ACCELDEV_CMD_WORDS] = { ACCELDEV_CMD_CONTEXT(ACCELDEV_CMD_RUN, ctx->id),
						  lower_32_bits(code->table_dma), upper_32_bits(code->table_dma),
						  arg.addr, arg.size };

		err = submit(ctx->dev, words);
	}
	mutex_unlock(&ctx->dev->lock);
out:
	/* Closing the last descriptor waits for the device, so the buffer outlives the RUN. */
	fput(file);
	return err;
}

static bool user_fence_reached(struct acceldev_context *ctx, u32 fence)
{
	return (s32)(le32_to_cpu(READ_ONCE(ctx->dev->records[ctx->id].fence_counter)) - fence) >= 0;
}

static long wait_fence(struct acceldev_context *ctx, struct acceldev_wait __user *user)
{
	struct acceldev *dev = ctx->dev;
	struct acceldev_wait arg;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (wait_event_interruptible(dev->wait, READ_ONCE(dev->gone) || in_error(ctx) ||
							user_fence_reached(ctx, arg.fence_wait)))
		return -EINTR;
	if (READ_ONCE(dev->gone))
		return -ENODEV;
	return in_error(ctx) ? -EIO : 0;
}

static long acceldev_ioctl(struct file *file, unsigned int number, unsigned long arg)
{
	struct acceldev_context *ctx = file->private_data;

	switch (number) {
	case ACCELDEV_IOCTL_CREATE_BUFFER:
		return create_buffer(ctx, (void __user *)arg);
	case ACCELDEV_IOCTL_RUN:
		return run(ctx, (void __user *)arg);
	case ACCELDEV_IOCTL_WAIT:
		return wait_fence(ctx, (void __user *)arg);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations acceldev_fops = {
	.owner = THIS_MODULE,
	.open = acceldev_open,
	.release = acceldev_release,
	.unlocked_ioctl = acceldev_ioctl,
};

/* ---- plugging in --------------------------------------------------------------------------------------------- */

static void start(struct acceldev *dev)
{
	reg_write(dev, ACCELDEV_INTR, ACCELDEV_INTR_ALL);
	reg_write(dev, ACCELDEV_INTR_ENABLE, ACCELDEV_INTR_ALL);
	reg_write(dev, ACCELDEV_CONTEXTS_CONFIGS, lower_32_bits(dev->records_dma));
	reg_write(dev, ACCELDEV_CONTEXTS_CONFIGS + 4, upper_32_bits(dev->records_dma));
	reg_write(dev, ACCELDEV_CMD_FENCE_LAST, 0);
	reg_write(dev, ACCELDEV_CMD_FENCE_WAIT, 0);
	reg_write(dev, ACCELDEV_ENABLE, 1);
}

/* Interrupts first: one that is on its way now has nobody left to clear it. */
static void stop(struct acceldev *dev)
{
	reg_write(dev, ACCELDEV_INTR_ENABLE, 0);
	reg_write(dev, ACCELDEV_ENABLE, 0);
	reg_write(dev, ACCELDEV_INTR, ACCELDEV_INTR_ALL);
}

static int acceldev_publish(struct acceldev *dev)
{
	struct device *node;
	int err;

	dev->cdev = cdev_alloc();
	if (!dev->cdev)
		return -ENOMEM;
	dev->cdev->owner = THIS_MODULE;
	dev->cdev->ops = &acceldev_fops;
	err = cdev_add(dev->cdev, first_number + dev->minor, 1);
	if (err)
		goto del;
	node = device_create(&acceldev_class, &dev->pdev->dev, first_number + dev->minor, NULL, NAME "%d", dev->minor);
	err = PTR_ERR_OR_ZERO(node);
	if (!err)
		return 0;
del:
	cdev_del(dev->cdev);
	return err;
}

static int acceldev_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct acceldev *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	int err;

	BUILD_BUG_ON(sizeof(struct acceldev_context_record) != 192);
	if (!dev)
		return -ENOMEM;
	kref_init(&dev->ref);
	mutex_init(&dev->lock);
	init_waitqueue_head(&dev->wait);
	ida_init(&dev->contexts);
	dev->pdev = pci_dev_get(pdev);
	dev->minor = ida_alloc_max(&minors, MAX_DEVICES - 1, GFP_KERNEL);
	err = dev->minor;
	if (err < 0)
		goto free;
	err = pci_enable_device(pdev);
	if (err)
		goto minor;
	err = pci_request_region(pdev, 0, NAME);
	if (err)
		goto disable;
	dev->bar = pci_iomap(pdev, 0, ACCELDEV_MMIO_USED);
	if (!dev->bar) {
		err = -ENOMEM;
		goto region;
	}
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(ACCELDEV_DMA_BITS));
	if (err)
		goto unmap;
	dev->records = dma_alloc_coherent(&pdev->dev, ACCELDEV_MAX_CONTEXTS * sizeof(*dev->records),
					  &dev->records_dma, GFP_KERNEL);
	if (!dev->records) {
		err = -ENOMEM;
		goto unmap;
	}
	pci_set_master(pdev);
	pci_set_drvdata(pdev, dev);
	err = request_irq(pdev->irq, acceldev_irq, IRQF_SHARED, NAME, dev);
	if (err)
		goto records;
	start(dev);
	mutex_lock(&devices_lock);
	devices[dev->minor] = dev;
	mutex_unlock(&devices_lock);
	err = acceldev_publish(dev);
	if (!err)
		return 0;
	mutex_lock(&devices_lock);
	devices[dev->minor] = NULL;
	mutex_unlock(&devices_lock);
	stop(dev);
	free_irq(pdev->irq, dev);
records:
	dma_free_coherent(&pdev->dev, ACCELDEV_MAX_CONTEXTS * sizeof(*dev->records), dev->records, dev->records_dma);
	pci_clear_master(pdev);
unmap:
	pci_iounmap(pdev, dev->bar);
region:
	pci_release_region(pdev, 0);
disable:
	pci_disable_device(pdev);
minor:
	ida_free(&minors, dev->minor);
free:
	pci_dev_put(dev->pdev);
	kfree(dev);
	return err;
}

static void acceldev_remove(struct pci_dev *pdev)
{
	struct acceldev *dev = pci_get_drvdata(pdev);

	device_destroy(&acceldev_class, first_number + dev->minor);
	cdev_del(dev->cdev);
	mutex_lock(&devices_lock);
	devices[dev->minor] = NULL;
	mutex_unlock(&devices_lock);
	mutex_lock(&dev->lock);
	if (pci_device_is_present(pdev)) {
		/* What is queued must be done before the bus master goes; a device that hangs is stopped all the same. */
		if (reg_read(dev, ACCELDEV_CMD_MANUAL_FREE))
			drain(dev);
		stop(dev);
	}
	WRITE_ONCE(dev->gone, true);
	mutex_unlock(&dev->lock);
	free_irq(pdev->irq, dev);
	wake_up_all(&dev->wait);
	pci_clear_master(pdev);
	pci_iounmap(pdev, dev->bar);
	pci_release_region(pdev, 0);
	pci_disable_device(pdev);
	kref_put(&dev->ref, device_free);
}

static const struct pci_device_id acceldev_ids[] = {
	{ PCI_DEVICE(ACCELDEV_VENDOR_ID, ACCELDEV_DEVICE_ID) },
	{ 0 },
};
MODULE_DEVICE_TABLE(pci, acceldev_ids);

static struct pci_driver acceldev_driver = {
	.name = NAME,
	.id_table = acceldev_ids,
	.probe = acceldev_probe,
	.remove = acceldev_remove,
};

static int __init acceldev_init(void)
{
	int err = alloc_chrdev_region(&first_number, 0, MAX_DEVICES, NAME);

	if (err)
		return err;
	err = class_register(&acceldev_class);
	if (err)
		goto numbers;
	err = pci_register_driver(&acceldev_driver);
	if (!err)
		return 0;
	class_unregister(&acceldev_class);
numbers:
	unregister_chrdev_region(first_number, MAX_DEVICES);
	return err;
}

static void __exit acceldev_exit(void)
{
	pci_unregister_driver(&acceldev_driver);
	class_unregister(&acceldev_class);
	unregister_chrdev_region(first_number, MAX_DEVICES);
}

module_init(acceldev_init);
module_exit(acceldev_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Acceldev, a paged accelerator");
