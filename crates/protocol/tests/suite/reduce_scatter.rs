//! Tests of reduce-scatters: each member receives the sums of its own part only.

use tributary_protocol::{
    Collective, Downlink, GradientData, JointAllReduce, OperationId, OwnedPart, StartError, Sums, Worker,
};
use tributary_wire::Rank;

use crate::alone::{ME, config, integers};
use crate::schedules::calm;
use crate::world::{Setup, World, reduce_scatter};

const WIDTH: usize = 256;
const MEMBERS: usize = 4;

#[test]
fn each_member_receives_the_sums_of_its_own_part_only() {
    // Each part has 5 slices, so that no slice has elements of two parts; or half a slice more.
    for (each, own, shared) in [(5 * WIDTH, 5, 0), (5 * WIDTH + WIDTH / 2, 5, 2)] {
        for (downlink, confidential) in
            [(Downlink::Multicast, false), (Downlink::Unicast, false), (Downlink::Multicast, true)]
        {
            let len = MEMBERS * each;
            let input = |rank: usize| {
                let data = GradientData::I32((0..len).map(|at| (at * (rank + 1)) as i32).collect());
                vec![reduce_scatter(data, 1)]
            };
            let mut world = World::new(
                &Setup { downlink, confidential, ..calm(16) },
                &(0..MEMBERS).map(input).collect::<Vec<_>>(),
            );
            world.run(200_000).unwrap();
            for (rank, host) in world.hosts.iter().enumerate() {
                let Sums::I32(sums) = &host.outcomes[&OperationId(0)].as_ref().unwrap().sums else {
                    unreachable!()
                };
                let part = rank * each..(rank + 1) * each;
                assert!(part.clone().all(|at| sums[at] == 10 * at as i32), "rank {rank}");
                let received = world.summed[&Rank::new(rank as u16)].len();
                // The part in the middle begins or ends within a slice that all members receive.
                assert_eq!(received, own + shared, "rank {rank}, {downlink:?}");
            }
        }
    }
}

#[test]
fn parts_whose_lengths_overflow_are_refused() {
    let mut worker = Worker::new(config(16)).unwrap();
    let part = |len: usize| OwnedPart { len, owner: ME, process: 0 };
    let operation: JointAllReduce = integers(1).into();
    let len = WIDTH;
    // The sum of the lengths is that of the tensor modulo 2^64.
    let parts = vec![part(usize::MAX / 2 + 1), part(usize::MAX / 2 + 1 + len)];
    let operation = JointAllReduce { collective: Collective::ReduceScatter(parts), ..operation };
    let refused = worker.start_joint(operation).unwrap_err();
    assert!(matches!(refused, StartError::Owners { len: WIDTH, .. }), "{refused}");
}
