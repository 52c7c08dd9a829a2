"""A second implementation of packets, numbers, tags, vouchers and masks, written from the specification alone.

It follows sections 3 and 10 to 13 of `docs/specification.md`, uses the names of that page, and computes with exact
numbers. It is slow, and has no state machines: the vectors' steps say which packet to make.
"""
