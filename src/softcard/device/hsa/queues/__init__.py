"""The queues of an HSA device in guest memory: packets, queue records, doorbells and signals."""
