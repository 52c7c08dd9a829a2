//! Tests of jobs whose workers have several stripes.

use tributary_protocol::{
    AllReduce, ConfigError, GradientData, JointAllReduce, OperationId, Stripe, StripesError, Sums, Worker,
    WorkerConfig, stripe_ranges,
};
use tributary_wire::{Rank, Seq, SliceWidth};

use crate::alone::config;
use crate::schedules::calm;
use crate::world::{Setup, World, operation, reduce_scatter};

/// The values of a slice.
const WIDTH: usize = SliceWidth::ETHERNET.values();
const LEN: usize = 300 * WIDTH + 17;

/// Returns each member's floats, whose exponents differ from block to block.
fn inputs() -> Vec<Vec<AllReduce>> {
    let value = |rank: usize, at: usize| (at * 7919 + rank) as f32 * 2_f32.powi(at as i32 / 64 % 40 - 20);
    let floats = |rank: usize| GradientData::F32((0..LEN).map(|at| value(rank, at)).collect());
    let operations = |rank| {
        vec![
            operation("weights", floats(rank), 1),
            operation("bias", GradientData::F32(vec![rank as f32; 10]), 1),
            reduce_scatter(floats(rank), 1),
        ]
    };
    (0..4).map(operations).collect()
}

/// Returns the sums of each operation at each member, and the world after its end.
fn sums(stripes: u32) -> (Vec<Vec<Sums>>, World) {
    let mut world = World::new(&Setup { stripes, ..calm(64) }, &inputs());
    world.run(usize::MAX).unwrap();
    let of_host = |host: &crate::world::Host| {
        (0..3).map(|id| host.outcomes[&OperationId(id)].as_ref().unwrap().sums.clone()).collect()
    };
    (world.hosts.iter().map(of_host).collect(), world)
}

#[test]
fn the_number_of_stripes_changes_no_bit_of_a_sum() {
    let (one, _) = sums(1);
    for stripes in [2, 4, 8] {
        let (several, world) = sums(stripes);
        for (rank, (one, several)) in one.iter().zip(&several).enumerate() {
            assert_eq!(one[..2], several[..2], "rank {rank}");
            // Parts share other slices with their neighbours, so a member may receive more of them.
            let (Sums::F32(one), Sums::F32(several)) = (&one[2], &several[2]) else { unreachable!() };
            let own = rank * (LEN / 4)..(rank + 1) * (LEN / 4);
            assert_eq!(one[own.clone()], several[own], "rank {rank}");
        }
        let sent = world.hosts[0].worker.as_ref().unwrap().sent_by_stripe();
        assert_eq!(sent.len(), stripes as usize);
        // Each large operation has 301 slices and the slices of their bounds.
        let most = 2 * (301_u64.div_ceil(u64::from(stripes)) + 10) + 2;
        assert!(sent.iter().all(|sent| (most / 2..=most).contains(sent)), "{sent:?}");
    }
}

#[test]
fn small_operations_run_in_the_first_stripe() {
    let tensor = |len: usize| {
        let data = GradientData::F32(vec![0.0; len]);
        JointAllReduce::from(operation("layer", data, 1)).tensor()
    };
    let small = 63 * WIDTH;
    assert_eq!(stripe_ranges(2, &tensor(small), SliceWidth::ETHERNET), std::slice::from_ref(&(0..small)));
    let len = 65 * WIDTH - 1;
    let expected = [0..32 * WIDTH, 32 * WIDTH..len];
    assert_eq!(stripe_ranges(2, &tensor(len), SliceWidth::ETHERNET), expected);
    assert_eq!(stripe_ranges(1, &tensor(len), SliceWidth::ETHERNET), std::slice::from_ref(&(0..len)));
}

#[test]
fn stripes_that_do_not_fit_the_window_are_refused() {
    for (stripes, window) in [(3, 64), (0, 64), (128, 256), (8, 4)] {
        let error = Stripe::all(stripes, window).err().unwrap();
        assert_eq!(error, StripesError { stripes, window });
    }
    let second = Stripe::all(4, 64).unwrap().nth(1).unwrap();
    assert!(second.contains(second.first()) && second.contains(Seq(6)) && !second.contains(Seq(5)));
    let misplaced = WorkerConfig { stripe: second, start: Seq(1), ..config(64) };
    assert_eq!(Worker::new(misplaced).err(), Some(ConfigError::Start { start: Seq(1), stripe: 1 }));
    // A worker of this stripe is one of the job's members like any other.
    let rank = Rank::new(3);
    assert!(Worker::new(WorkerConfig { rank, stripe: second, start: second.first(), ..config(64) }).is_ok());
}
