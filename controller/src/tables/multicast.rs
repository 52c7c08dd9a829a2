//! The ids of multicast groups, which have the same meaning on every switch.

use std::net::Ipv4Addr;

use tributary_api::Endpoint;
use tributary_p4runtime::entry::LAST_GROUP;
use tributary_wire::{JobId, MacAddr};

/// The group of Ethernet broadcasts. The id 0 would mean "no group" in v1model.
pub(crate) const BROADCAST_GROUP: u16 = 1;

/// The number of multicast groups of a job.
/// During a change, the present generation and the next generation each have one on the switches.
const GROUPS_PER_JOB: u16 = 2;

/// The number of job indices for which there are multicast groups.
pub(crate) const MAX_JOB_GROUPS: u16 = (LAST_GROUP as u16 - BROADCAST_GROUP) / GROUPS_PER_JOB;

/// Returns the multicast group for the results of a generation.
/// `job_index` is below [`MAX_JOB_GROUPS`]. Consecutive generations have different groups.
pub(crate) fn job_group(job_index: u16, generation: u32) -> u16 {
    let of_generation = (generation % u32::from(GROUPS_PER_JOB)) as u16;
    let first = BROADCAST_GROUP.saturating_add(1);
    first.saturating_add(job_index.saturating_mul(GROUPS_PER_JOB)).saturating_add(of_generation)
}

/// Returns the destination of a job's multicast results.
/// The IP address has organization-local scope (RFC 2365) and ends with the job id. The Ethernet address is derived
/// from it (RFC 1112).
pub(crate) fn job_address(job: JobId) -> Endpoint {
    let [high, low] = job.get().to_be_bytes();
    let ip = Ipv4Addr::new(239, 192, high, low);
    // The Ethernet address ends with the lower 23 bits of the IP address, so the top bit of 192 is dropped.
    Endpoint { mac: MacAddr::new(0x01, 0x00, 0x5e, 192 & 0x7f, high, low), ip }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_groups_share_an_id() {
        let of_job = |index| [job_group(index, 6), job_group(index, 7)];
        assert_eq!([of_job(0), of_job(1)], [[2, 3], [4, 5]]);
        assert_eq!(job_group(0, 8), job_group(0, 6));
        assert!(u32::from(job_group(MAX_JOB_GROUPS - 1, 1)) <= LAST_GROUP);
    }

    #[test]
    fn an_address_is_a_multicast_one_and_the_jobs_own() {
        let address = job_address(JobId::new(0x0102).unwrap());
        assert_eq!(address.ip.to_string(), "239.192.1.2");
        assert_eq!(address.mac.to_string(), "01:00:5e:40:01:02");
        assert!(address.mac.is_multicast() && address.ip.is_multicast());
    }
}
