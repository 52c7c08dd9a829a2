//! Counters at one point in time, or their growth per second.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tributary_api::v1;

use tributary_cli::switches::switch_json;

/// Numbers of packets and bytes: totals, or rates per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Count {
    pub(super) packets: f64,
    pub(super) bytes: f64,
}

/// Counters by reason or kind.
pub(super) type Counts = BTreeMap<String, Count>;

/// The link at a port of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PortLink {
    /// The node at the other end of the link.
    pub(super) neighbour: String,
    /// The link's rate in each direction, in bit/s.
    pub(super) rate: u64,
}

/// One switch's counters.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SwitchReading {
    pub(super) name: String,
    /// Counts of packets, by job and reason.
    pub(super) jobs: BTreeMap<String, Counts>,
    /// Counts of packets, by port and kind.
    pub(super) ports: BTreeMap<u32, Counts>,
    /// Links, by port.
    pub(super) links: BTreeMap<u32, PortLink>,
    /// The reason why the counters are not current; `None` if they are.
    pub(super) unreachable: Option<String>,
    /// The age of the counters; `None` without counters.
    pub(super) age: Option<Duration>,
    /// The switch's state, as reported by the controller.
    pub(super) state: v1::Switch,
}

/// The counters of all switches, in the topology's order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Reading {
    pub(super) switches: Vec<SwitchReading>,
}

impl Reading {
    /// Creates a reading. `states` are the states of all switches, in any order.
    pub(super) fn new(switches: &[v1::SwitchCounters], states: &[v1::Switch]) -> Self {
        let state = |name: &str| states.iter().find(|state| state.name == name).cloned().unwrap_or_default();
        Self { switches: switches.iter().map(|counters| switch(counters, state(&counters.name))).collect() }
    }

    /// Returns the growth of each counter per second; `elapsed` is the time since the reading `before`. A
    /// counter that has become smaller was cleared meanwhile, so it has grown from zero. If a switch was
    /// unreachable, the growth is averaged over the whole time since its previous reading.
    pub(super) fn rates_since(&self, before: &Self, elapsed: Duration) -> Self {
        let switch = |now: &SwitchReading| {
            let old = before.switches.iter().find(|old| old.name == now.name);
            let age = |reading: Option<&SwitchReading>| reading.and_then(|one| one.age).unwrap_or_default();
            let between = (elapsed + age(old)).saturating_sub(age(Some(now)));
            let seconds = if between.is_zero() { elapsed } else { between }.as_secs_f64();
            SwitchReading {
                jobs: grown(&now.jobs, old.map(|old| &old.jobs), seconds),
                ports: grown(&now.ports, old.map(|old| &old.ports), seconds),
                ..now.clone()
            }
        };
        Self { switches: self.switches.iter().map(switch).collect() }
    }

    /// Returns the totals as JSON for programs, with the rates if there are any.
    pub(super) fn json(&self, rates: Option<&Self>) -> Value {
        let switches = |reading: &Self| reading.switches.iter().map(reading_json).collect::<Vec<_>>();
        match rates {
            None => json!({ "switches": switches(self) }),
            Some(rates) => json!({ "switches": switches(self), "per_second": switches(rates) }),
        }
    }
}

fn switch(counters: &v1::SwitchCounters, state: v1::Switch) -> SwitchReading {
    let mut reading = SwitchReading {
        name: counters.name.clone(),
        unreachable: counters.unreachable.clone(),
        age: counters.age_milliseconds.map(Duration::from_millis),
        state,
        ..SwitchReading::default()
    };
    let count = |packets, bytes| Count { packets: packets as f64, bytes: bytes as f64 };
    for v1::JobCounter { job, reason, packets, bytes, .. } in &counters.jobs {
        reading.jobs.entry(job.clone()).or_default().insert(reason.clone(), count(*packets, *bytes));
    }
    for v1::PortCounter { port, kind, packets, bytes, neighbour, link_rate } in &counters.ports {
        let link = PortLink { neighbour: neighbour.clone(), rate: *link_rate };
        reading.links.insert(*port, link);
        reading.ports.entry(*port).or_default().insert(kind.clone(), count(*packets, *bytes));
    }
    reading
}

fn grown<K: Ord + Clone>(
    now: &BTreeMap<K, Counts>,
    before: Option<&BTreeMap<K, Counts>>,
    seconds: f64,
) -> BTreeMap<K, Counts> {
    let rate = |now: f64, before: f64| if now < before { now / seconds } else { (now - before) / seconds };
    let counts = |key: &K, counts: &Counts| {
        let old = before.and_then(|before| before.get(key));
        let count = |(what, count): (&String, &Count)| {
            let old = old.and_then(|old| old.get(what)).copied().unwrap_or_default();
            let packets = rate(count.packets, old.packets);
            (what.clone(), Count { packets, bytes: rate(count.bytes, old.bytes) })
        };
        counts.iter().map(count).collect()
    };
    now.iter().map(|(key, value)| (key.clone(), counts(key, value))).collect()
}

fn reading_json(switch: &SwitchReading) -> Value {
    let jobs: Map<String, Value> =
        switch.jobs.iter().map(|(job, counts)| (job.clone(), counts_json(counts))).collect();
    let ports: Map<String, Value> =
        switch.ports.iter().map(|(port, counts)| (port.to_string(), counts_json(counts))).collect();
    let link = |link: &PortLink| json!({ "neighbour": link.neighbour, "rate": link.rate });
    let links: Map<String, Value> =
        switch.links.iter().map(|(port, at)| (port.to_string(), link(at))).collect();
    json!({
        "name": switch.name,
        "jobs": jobs,
        "ports": ports,
        "links": links,
        "unreachable": switch.unreachable,
        "age_seconds": switch.age.map(|age| age.as_secs_f64()),
        "switch": switch_json(&switch.state),
    })
}

fn counts_json(counts: &Counts) -> Value {
    // Totals are whole numbers, and are written as integers.
    let number = |value: f64| if value.fract() == 0.0 { json!(value as u64) } else { json!(value) };
    let count = |count: &Count| json!({ "packets": number(count.packets), "bytes": number(count.bytes) });
    counts.iter().map(|(what, value)| (what.clone(), count(value))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(packets: u64) -> Reading {
        let job = |packets| v1::JobCounter {
            job: "a".into(),
            reason: "received".into(),
            packets,
            bytes: 10 * packets,
            ..Default::default()
        };
        let port = |packets| v1::PortCounter {
            port: 2,
            kind: "egress".into(),
            packets,
            bytes: 7,
            neighbour: "w0".into(),
            link_rate: 50_000_000,
        };
        let counters = v1::SwitchCounters {
            name: "leaf".into(),
            jobs: vec![job(packets)],
            ports: vec![port(packets)],
            unreachable: None,
            age_milliseconds: Some(0),
        };
        Reading::new(&[counters], &[])
    }

    /// Returns a reading of a switch that is unreachable.
    fn stale(packets: u64, age: Duration) -> Reading {
        let mut reading = reading(packets);
        reading.switches[0].age = Some(age);
        reading.switches[0].unreachable = Some("no answer".into());
        reading
    }

    #[test]
    fn rates_over_an_absence_are_those_of_all_its_time() {
        let second = Duration::from_secs(1);
        let unreachable = |age| stale(100, second * age);
        assert_eq!(
            unreachable(9).rates_since(&unreachable(8), second).switches[0].jobs["a"]["received"].packets,
            0.0
        );
        let back = reading(200).rates_since(&unreachable(9), second);
        assert_eq!(back.switches[0].jobs["a"]["received"].packets, 10.0);
    }

    #[test]
    fn rates_are_the_growth_over_the_time() {
        let rates = reading(300).rates_since(&reading(100), Duration::from_secs(4));
        let job = rates.switches[0].jobs["a"]["received"];
        assert_eq!(job, Count { packets: 50.0, bytes: 500.0 });
        assert_eq!(rates.switches[0].ports[&2]["egress"], Count { packets: 50.0, bytes: 0.0 });
    }

    #[test]
    fn what_was_cleared_or_is_new_has_grown_from_zero() {
        let second = Duration::from_secs(1);
        let cleared = reading(30).rates_since(&reading(100), second);
        assert_eq!(cleared.switches[0].jobs["a"]["received"].packets, 30.0);
        let new = reading(30).rates_since(&Reading::default(), second);
        assert_eq!(new.switches[0].jobs["a"]["received"].packets, 30.0);
    }

    #[test]
    fn programs_get_whole_numbers_by_name() {
        let json = reading(3).json(None);
        assert_eq!(json["switches"][0]["jobs"]["a"]["received"]["bytes"], 30);
        assert_eq!(json["switches"][0]["ports"]["2"]["egress"]["packets"], 3);
        assert_eq!(json["switches"][0]["links"]["2"], json!({ "neighbour": "w0", "rate": 50_000_000 }));
        assert!(json.get("per_second").is_none());
        assert_eq!(json["switches"][0]["unreachable"], Value::Null);
        let stale = stale(3, Duration::from_millis(2500)).json(None);
        assert_eq!(stale["switches"][0]["unreachable"], "no answer");
        assert_eq!(stale["switches"][0]["age_seconds"], 2.5);
        assert_eq!(reading(3).json(Some(&reading(3)))["per_second"][0]["name"], "leaf");
    }
}
