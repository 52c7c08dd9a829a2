// SPDX-License-Identifier: Apache-2.0
//
// The counters of v1model, with the same names. A counter is in ingress or in egress, wherever the event is
// known first. Each counter is used in one place, because a packet can access it only once.
#ifndef TRIBUTARY_TNA_COUNTERS_P4
#define TRIBUTARY_TNA_COUNTERS_P4

// In ingress. Index: the job index from the admission entry.
COUNTER(bit<16>, MAX_JOBS, job_received)
COUNTER(bit<16>, MAX_JOBS, job_rejected)
COUNTER(bit<16>, MAX_JOBS, job_forwarded)
COUNTER(bit<16>, MAX_JOBS, job_result)

// In egress, which has the slots.
COUNTER(bit<16>, MAX_JOBS, job_contributed)
COUNTER(bit<16>, MAX_JOBS, job_completed)
COUNTER(bit<16>, MAX_JOBS, job_consumed)
COUNTER(bit<16>, MAX_JOBS, job_duplicate)
COUNTER(bit<16>, MAX_JOBS, job_stale)
COUNTER(bit<16>, MAX_JOBS, job_probe)
COUNTER(bit<16>, MAX_JOBS, job_released)

// Index: the port.
COUNTER(bit<9>, PORTS, port_ingress)
COUNTER(bit<9>, PORTS, port_rejected)
COUNTER(bit<9>, PORTS, port_egress)

#endif
