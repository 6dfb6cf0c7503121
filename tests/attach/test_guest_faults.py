"""What a faulty driver does to a guest run: each fault ends in a clear report, and the other programs still run."""

import re
import subprocess

import pytest

from tests.attach.test_guest import GUEST_ROOT, TOOLS, boot, reason
from tests.attach.test_guest_build import write

pytestmark = [pytest.mark.oracle, pytest.mark.skipif(bool(reason()), reason=reason()), pytest.mark.slow]

# A PCI driver of another device. What is written to /dev/faulty says what goes wrong.
FAULTY = """
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>

static noinline void faulty_waits_for_ever(void) { for (;;) msleep(1000); }

static ssize_t faulty_write(struct file *file, const char __user *data, size_t size, loff_t *offset)
{
    char which;

    if (get_user(which, data))
        return -EFAULT;
    if (which == 'i')
        pr_info("faulty: a word of the driver\\n");
    if (which == 's')
        wait_event_interruptible(*(wait_queue_head_t *)file->private_data, 0);
    if (which == 'w')
        faulty_waits_for_ever();
    if (which == 'o')
        *(volatile int *)8 = 1;
    if (which == 'p')
        panic("enough of this");
    return size;
}

static wait_queue_head_t queue;

static int faulty_open(struct inode *inode, struct file *file)
{
    file->private_data = &queue;
    return 0;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE, .open = faulty_open, .write = faulty_write,
};
static struct miscdevice faulty = { .minor = MISC_DYNAMIC_MINOR, .name = "faulty", .fops = &operations };

static int faulty_probe(struct pci_dev *pdev, const struct pci_device_id *id) { return 0; }

static const struct pci_device_id ids[] = { { PCI_DEVICE(0x0666, 0x0018) }, { 0 } };
MODULE_DEVICE_TABLE(pci, ids);
static struct pci_driver driver = { .name = "faulty", .id_table = ids, .probe = faulty_probe };

static int __init faulty_init(void)
{
    init_waitqueue_head(&queue);
    return misc_register(&faulty) ?: pci_register_driver(&driver);
}

static void __exit faulty_exit(void)
{
    pci_unregister_driver(&driver);
    misc_deregister(&faulty);
}
module_init(faulty_init);
module_exit(faulty_exit);
MODULE_LICENSE("GPL");
"""
BUSY = FAULTY.replace("return misc_register", "for (;;) msleep(1000); return misc_register")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two modules, and a program for each fault."""
    source, target = tmp_path_factory.mktemp("faulty"), tmp_path_factory.mktemp("made") / "built"
    write(source, {"Kbuild": "obj-m := faulty.o busy.o\n", "faulty.c": FAULTY, "busy.c": BUSY})
    programs = {
        "fine": "echo i >/dev/faulty",
        "loops": "sleep 1000 & while :; do :; done",
        "sleeps": "echo s >/dev/faulty",
        "stuck": "echo w >/dev/faulty",
        "fails": "echo three things; exit 3",
        "oopses": "echo o >/dev/faulty",
        "panics": "echo p >/dev/faulty",
        "later": "true",
    }
    write(source, {name: f"#!/bin/sh\n{text}\n" for name, text in programs.items()})
    # A program that needs the C library, a thread that waits in the kernel, and one that does not.
    write(source, {"threads.c": THREADS, "Makefile": "all:\n\t$(CC) -o threads threads.c\n"})
    command = ["sh", str(TOOLS / "guest-build.sh"), str(GUEST_ROOT), str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


THREADS = """
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *wait_in_the_driver(void *none) { write(open("/dev/faulty", O_WRONLY), "s", 1); return none; }
int main(void)
{
    pthread_t thread;

    puts("two threads");
    fflush(stdout);
    pthread_create(&thread, 0, wait_in_the_driver, 0);
    pthread_join(thread, 0);
}
"""


def test_hanging_failing_and_oopsing_programs(built):
    names = ["fine", "loops", "threads", "sleeps", "fails", "oopses", "stuck", "later"]
    done = boot("--limit", 3, "--ko", built / "faulty.ko", *(built / name for name in names))
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stdout + done.stderr
    late = "still running after 3 s, and killed: where it waited is shown above"
    for reported in (
        "guest:   fine: ok",
        f"guest:   loops: {late}",
        f"guest:   threads: {late}",
        f"guest:   sleeps: {late}",
        "guest:   stuck: still running after 3 s, and cannot be killed: it waits inside the kernel, as shown above",
        "guest:   later: ok",
        "guest: 2 of 8 programs passed",
        "guest: status 1",
        "guest: three things",
        "guest: two threads",
    ):
        assert reported in lines, done.stdout
    assert "guest:   fails: failed with status 3 after" in done.stdout
    assert "guest:   oopses: failed with status 137 (ended by signal 9) after" in done.stdout
    assert "guest: rmmod failed with status" in done.stdout
    assert "faulty: a word of the driver" in done.stdout, "pr_info is shown"
    assert re.search(
        r"^guest: no driver has taken the device 0000:00:0\d.0 \(pci:v00000666d00000019\): "
        r"probe failed, or was not called; the module answers to pci:v00000666d00000018",
        done.stdout,
        re.MULTILINE,
    )
    assert "guest: the kernel's log says: " in done.stdout
    assert "BUG: kernel NULL pointer dereference, address: 0000000000000008" in done.stdout
    # What is told of those that hang.
    shown = done.stdout.split("-- threads has not ended after 3 s. It is doing this:")[1].split("-- threads still")[0]
    assert shown.count("(threads): state S") == 2
    assert re.search(r"kernel stack:\n.*faulty_write", shown, re.DOTALL)
    assert "guest: /proc/interrupts:" in shown
    assert "guest: the end of the kernel's log:" in shown
    assert "faulty: loading out-of-tree module" in shown
    shown = done.stdout.split("-- loops has not ended")[1].split("-- loops still")[0]
    assert "(loops): state R" in shown
    assert "(sleep): state S" in shown
    shown = done.stdout.split("-- stuck has not ended")[1].split("-- stuck still")[0]
    assert re.search(r"\(stuck\): state [DR]", shown)  # it waits without a signal, and wakes now and then
    assert "faulty_waits_for_ever" in shown


def test_a_panic_and_what_was_not_run(built):
    done = boot("--ko", built / "faulty.ko", *(built / name for name in ("fine", "panics", "later")))
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stdout + done.stderr
    for reported in (
        "guest:   fine: ok",
        "guest:   panics: the guest died",
        "guest:   later: was not run",
        "guest: the guest died during panics: Kernel panic - not syncing: enough of this",
        "guest: 1 of 3 programs passed",
    ):
        assert reported in lines, done.stdout
    assert re.search(r"^kernel: .*faulty_write.*\[faulty\]", done.stdout, re.MULTILINE), "the call trace is shown"


def test_a_module_that_hangs_while_it_is_loaded(built):
    done = boot("--limit", 3, "--ko", built / "busy.ko", built / "later")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "guest: insmod still running after 3 s, and cannot be killed" in done.stdout
    assert "init_module+" in done.stdout
    assert "guest: 1 of 1 programs passed" in done.stdout


def test_a_guest_that_does_not_answer_in_time(built):
    done = boot("--timeout", 20, "--ko", built / "faulty.ko", built / "sleeps", built / "later")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the guest died during sleeps: time was up, the guest did not answer any more" in done.stdout
    assert "guest:   later: was not run" in done.stdout


def test_programs_that_cannot_be_distinguished_or_have_no_library(built, tmp_path):
    (tmp_path / "later").write_bytes(b"")
    done = boot("--ko", built / "faulty.ko", built / "later", tmp_path / "later")
    assert done.returncode == 2
    assert "two programs cannot both be called later" in done.stderr
    done = boot("--ko", built / "faulty.ko", tmp_path)
    assert f"there is no {tmp_path}" in done.stderr
