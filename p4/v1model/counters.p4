// SPDX-License-Identifier: Apache-2.0
//
// All counters, here because several controls share them. The controller reads them by name.
// README.md says how those of a job add up.
#ifndef TRIBUTARY_COUNTERS_P4
#define TRIBUTARY_COUNTERS_P4

// Index: the job index that admission gives.
counter(MAX_JOBS, CounterType.packets_and_bytes) job_received;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_contributed;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_completed;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_consumed;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_duplicate;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_stale;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_probe;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_forwarded;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_result;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_released;
counter(MAX_JOBS, CounterType.packets_and_bytes) job_rejected;

// Index: the port.
counter(PORTS, CounterType.packets_and_bytes) port_ingress;
counter(PORTS, CounterType.packets_and_bytes) port_egress;
counter(PORTS, CounterType.packets_and_bytes) port_rejected;

#endif
