//! Tests of all-reduces of real agents through BMv2.

use tributary_api::v1;
use tributary_controller::PipelineSource;
use tributary_wire::SliceWidth;

use crate::common::{Client, job, programs, shipped, start_with};
use crate::switches::eventually;
use crate::wire::network::{Bmv2Network, in_namespace};
use crate::wire::team::Team;

/// A window that exceeds several times the capacity of a BMv2 queue, which is 64 packets for each port.
const WIDE: u32 = 512;
/// The number of values of a gradient whose last slice is not full.
const LEN: usize = 100 * SliceWidth::ETHERNET.values() - 1;

/// Returns values that differ from worker to worker and whose sum does not overflow.
fn values(rank: u16, len: usize) -> Vec<i32> {
    (0..len).map(|index| (index as i32 - 1000).wrapping_mul(i32::from(rank) + 1)).collect()
}

fn assert_sums(sums: &[Vec<i32>], len: usize) {
    let mut expected = vec![0; len];
    for rank in 0..sums.len() {
        expected.iter_mut().zip(values(rank as u16, len)).for_each(|(sum, value)| *sum += value);
    }
    for (rank, got) in sums.iter().enumerate() {
        assert!(*got == expected, "rank {rank}");
    }
}

/// Returns the number of packets that a switch has counted for a job.
async fn counted(client: &Client, switch: &str, job: &str, reason: &str) -> u64 {
    let request = v1::GetCountersRequest { switches: vec![switch.into()] };
    let switches = client.clone().get_counters(request).await.unwrap().into_inner().switches;
    let mut counters = switches[0].jobs.iter();
    counters.find(|counter| counter.job == job && counter.reason == reason).unwrap().packets
}

#[test]
fn four_workers_reduce_over_two_levels_and_a_plain_switch() {
    for program in programs() {
        in_namespace(|| four_workers_reduce(program));
    }
}

async fn four_workers_reduce(program: PipelineSource) {
    println!("with {program:?}");
    let topology = shipped("plain-middle-4.toml");
    let fabric = Bmv2Network::start(&topology);
    let (controller, mut client) = start_with(topology, fabric.look().addresses(), program).await;
    for downlink in [v1::Downlink::Multicast, v1::Downlink::Unicast] {
        let name = format!("{downlink:?}");
        let request = v1::CreateJobRequest { downlink: downlink.into(), ..job(&name) };
        let team = Team::start(&controller, &mut client, request).await;
        assert_sums(&team.all_reduce(|rank| values(rank, LEN)).await, LEN);

        // Each slice counts once for each child, even if it was sent several times. Each slice is released once.
        let slices = team.stats()[0].sent;
        assert!(slices >= 100);
        for (switch, children) in [("leaf0", 2), ("leaf1", 2), ("root", 2)] {
            assert_eq!(counted(&client, switch, &name, "contributed").await, children * slices, "{switch}");
            assert_eq!(counted(&client, switch, &name, "completed").await, slices, "{switch}");
            assert_eq!(counted(&client, switch, &name, "released").await, slices, "{switch}");
        }
    }
    controller.shutdown().await.unwrap();
}

#[test]
fn a_window_beyond_the_queues_costs_no_sum() {
    for program in programs() {
        in_namespace(async || {
            let topology = shipped("two-workers.toml");
            let fabric = Bmv2Network::start(&topology);
            let (controller, mut client) =
                start_with(topology, fabric.look().addresses(), program.clone()).await;
            let request = v1::CreateJobRequest { window: WIDE, ..job("wide") };
            let team = Team::start(&controller, &mut client, request).await;
            let len = 1000 * team.worker_configs[&0].width.values();
            assert_sums(&team.all_reduce(|rank| values(rank, len)).await, len);
            controller.shutdown().await.unwrap();
        });
    }
}

#[test]
fn a_bmv2_that_restarts_in_the_middle_costs_time_only() {
    for program in programs() {
        in_namespace(async || {
            let topology = shipped("two-workers.toml");
            let mut fabric = Bmv2Network::start(&topology);
            let (controller, mut client) =
                start_with(topology, fabric.look().addresses(), program.clone()).await;
            let team = Team::start(&controller, &mut client, job("long")).await;
            let len = 4000 * team.worker_configs[&0].width.values();
            let (sums, ()) = tokio::join!(team.all_reduce(|rank| values(rank, len)), async {
                eventually(async || team.stats()[0].sent > 100).await;
                fabric.switch("leaf").restart();
            });
            assert_sums(&sums, len);
            controller.shutdown().await.unwrap();
        });
    }
}
