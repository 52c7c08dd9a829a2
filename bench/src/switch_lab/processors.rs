//! Processors of their own for the generator and for the switch, as on two machines.
//!
//! Over a veth pair the sender's processor does the receiver's part as well, up to the packet socket: it would be the
//! generator's that limits a fast switch. Receive packet steering gives that part to the processor of who receives.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tributary_lab::Lab;
use tributary_topology::Node;

use super::SwitchLabError;

/// The kernel reads masks of processors in groups of so many bits.
const GROUP_BITS: usize = 32;

/// Who runs where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Processors {
    generator: CpuSet,
    switch: CpuSet,
}

impl Processors {
    /// The first processor that this process may use for the generator, all others for the switch; `None` where there
    /// is only one.
    pub(super) fn divided() -> Result<Option<Self>, SwitchLabError> {
        let allowed = sched_getaffinity(None).map_err(failed("find out about"))?;
        let mut allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let (generator, switch) = (set_of(allowed.by_ref().take(1)), set_of(allowed));
        Ok((switch.count() > 0).then_some(Self { generator, switch }))
    }

    /// Starts the switch on its processors, and leaves the calling thread on the generator's.
    pub(super) fn start<T>(
        &self,
        start: impl FnOnce() -> Result<T, SwitchLabError>,
    ) -> Result<T, SwitchLabError> {
        let choose = |set| sched_setaffinity(None, set).map_err(failed("choose"));
        // A process runs where the thread that started it does.
        choose(&self.switch)?;
        let started = start();
        choose(&self.generator)?;
        started
    }

    /// Lets each side receive on its own processors.
    pub(super) fn steer(&self, lab: &Lab, switch: &Node, hosts: &[&Node]) -> Result<(), SwitchLabError> {
        steer(lab, switch, &self.switch)?;
        hosts.iter().try_for_each(|host| steer(lab, host, &self.generator))
    }
}

/// Receives on these processors what comes in at a node.
fn steer(lab: &Lab, node: &Node, to: &CpuSet) -> Result<(), SwitchLabError> {
    for interface in lab.interfaces(&node.name)? {
        let script = format!("echo {} > /sys/class/net/{}/queues/rx-0/rps_cpus", mask(to), interface.name);
        let output = lab.command(&node.name, "sh")?.arg("-c").arg(script).output();
        let output = output.map_err(|reason| SwitchLabError::Processors { step: "steer to", reason })?;
        if !output.status.success() {
            let reason = io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned());
            return Err(SwitchLabError::Processors { step: "steer to", reason });
        }
    }
    Ok(())
}

fn set_of(processors: impl Iterator<Item = usize>) -> CpuSet {
    processors.fold(CpuSet::new(), |mut set, cpu| {
        set.set(cpu);
        set
    })
}

fn failed(step: &'static str) -> impl Fn(rustix::io::Errno) -> SwitchLabError {
    move |reason| SwitchLabError::Processors { step, reason: reason.into() }
}

/// A set as the kernel reads it: hexadecimal, groups of 32 bits with commas between them, the lowest last.
fn mask(set: &CpuSet) -> String {
    let group = |number: usize| {
        let bits = (0..GROUP_BITS).filter(|bit| set.is_set(number * GROUP_BITS + bit));
        bits.fold(0_u32, |group, bit| group | 1 << bit)
    };
    let highest = (0..CpuSet::MAX_CPU).rfind(|&cpu| set.is_set(cpu)).unwrap_or(0);
    let groups: Vec<_> =
        (0..=highest / GROUP_BITS).rev().map(|number| format!("{:08x}", group(number))).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_as_the_kernel_reads_them() {
        assert_eq!(mask(&set_of([0].into_iter())), "00000001");
        assert_eq!(mask(&set_of([1, 3].into_iter())), "0000000a");
        assert_eq!(mask(&set_of([2, 31, 33, 64].into_iter())), "00000001,00000002,80000004");
    }

    #[test]
    fn nobody_shares_a_processor() {
        let Some(Processors { generator, switch }) = Processors::divided().unwrap() else { return };
        assert_eq!(generator.count(), 1);
        assert!((0..CpuSet::MAX_CPU).all(|cpu| !(generator.is_set(cpu) && switch.is_set(cpu))));
    }
}
