// SPDX-License-Identifier: Apache-2.0
//
// The counters of v1model, by the same names. A counter belongs to ingress or to egress, whichever knows
// first; each is counted in one place, since a packet can reach it once only.
#ifndef TRIBUTARY_TNA_COUNTERS_P4
#define TRIBUTARY_TNA_COUNTERS_P4

// In ingress. Index: the job index that admission gives.
COUNTER(bit<16>, MAX_JOBS, job_received)
COUNTER(bit<16>, MAX_JOBS, job_rejected)
COUNTER(bit<16>, MAX_JOBS, job_forwarded)
COUNTER(bit<16>, MAX_JOBS, job_result)

// In egress, where the slots are.
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
