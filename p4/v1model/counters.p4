// SPDX-License-Identifier: Apache-2.0
//
// All counters, in one file because several controls share them. The controller reads them by name.
// README.md explains how the counters of a job are related.
#ifndef TRIBUTARY_COUNTERS_P4
#define TRIBUTARY_COUNTERS_P4

// Index: the job index from the admission entry.
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_received;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_contributed;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_completed;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_consumed;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_duplicate;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_stale;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_probe;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_forwarded;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_result;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_released;
counter<bit<16>>(MAX_JOBS, CounterType.packets_and_bytes) job_rejected;

// Index: the port.
counter<bit<9>>(PORTS, CounterType.packets_and_bytes) port_ingress;
counter<bit<9>>(PORTS, CounterType.packets_and_bytes) port_egress;
counter<bit<9>>(PORTS, CounterType.packets_and_bytes) port_rejected;

#endif
