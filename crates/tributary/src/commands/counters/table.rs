//! Formats counters as tables for users.

use std::collections::BTreeSet;
use std::fmt::Write;

use indicatif::{HumanBytes, HumanCount};

use super::reading::{Count, Counts, Reading, SwitchReading};
use tributary_cli::output::{number_table, with_whole_words};
use tributary_cli::switches;

/// Counters of a job's packets, in the order in which a switch processes a packet. Other counters
/// follow.
const ORDER: [&str; 8] =
    ["received", "contributed", "completed", "consumed", "duplicate", "stale", "probe", "forwarded"];
/// The number of switches in one table.
const SWITCHES_ABREAST: usize = 7;
const PORT_KINDS: [&str; 3] = ["ingress", "egress", "rejected"];

/// Returns the tables of jobs, and a table of ports. `rates` is true if the numbers are rates per
/// second.
pub(super) fn text(reading: &Reading, rates: bool) -> String {
    let mut text = String::new();
    let per_second = if rates { " a second" } else { "" };
    let jobs: BTreeSet<_> = reading.switches.iter().flat_map(|switch| switch.jobs.keys()).collect();
    for job in jobs {
        let switches: Vec<_> =
            reading.switches.iter().filter(|switch| switch.jobs.contains_key(job)).collect();
        let reasons = reasons(job, &switches);
        // Writing to a string cannot fail.
        if reasons.is_empty() {
            let _ = writeln!(text, "packets{per_second} of job {job}: none");
            continue;
        }
        for switches in switches.chunks(SWITCHES_ABREAST) {
            let _ = writeln!(text, "packets{per_second}\n{}", packets(job, switches, &reasons));
        }
    }
    if reading.switches.iter().any(|switch| !switch.ports.is_empty()) {
        let table = if rates { port_rates(reading) } else { ports(reading) };
        let _ = writeln!(text, "frames and bytes{per_second}\n{table}");
    }
    for remark in remarks(reading) {
        let _ = writeln!(text, "{remark}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns one line for each switch whose counters are not current.
fn remarks(reading: &Reading) -> Vec<String> {
    let remark = |switch: &SwitchReading| {
        let unreachable = switch.unreachable.as_ref()?;
        let age = match switch.age {
            Some(age) => format!("its counters are {:.1} s old", age.as_secs_f64()),
            None => "its counters were never read".to_owned(),
        };
        let name = &switch.name;
        let remark = switches::remark(&switch.state);
        Some(format!("{}; {age}", remark.unwrap_or_else(|| format!("switch {name}: {unreachable}"))))
    };
    reading.switches.iter().filter_map(remark).collect()
}

/// Returns a table of one job's packets with a column for each switch. The reasons are rows, because a
/// terminal has no space for as many columns.
fn packets(job: &str, switches: &[&SwitchReading], reasons: &[&str]) -> comfy_table::Table {
    let mut header = vec![job];
    header.extend(switches.iter().map(|switch| switch.name.as_str()));
    let mut table = number_table(&header);
    let counts: Vec<_> = switches.iter().filter_map(|switch| switch.jobs.get(job)).collect();
    for &reason in reasons {
        let packets = counts.iter().map(|counts| number(get(counts, reason).packets));
        table.add_row(std::iter::once(reason.to_owned()).chain(packets));
    }
    with_whole_words(table)
}

fn ports(reading: &Reading) -> comfy_table::Table {
    let header = ["switch", "port to", "frames in", "bytes in", "frames out", "bytes out", "rejected"];
    let mut table = number_table(&header);
    for PortRow { place, ingress, egress, rejected, .. } in port_rows(reading) {
        let frames = [ingress, egress].map(|count| [number(count.packets), bytes(count.bytes)]);
        table
            .add_row(place.into_iter().chain(frames.into_iter().flatten()).chain([number(rejected.packets)]));
    }
    with_whole_words(table)
}

/// Returns a table of the rates on links, in Mbit/s and as a percentage of the link's rate.
fn port_rates(reading: &Reading) -> comfy_table::Table {
    let header =
        ["switch", "port to", "frames in", "Mbit/s", "full", "frames out", "Mbit/s", "full", "rejected"];
    let mut table = number_table(&header);
    for PortRow { place, ingress, egress, rejected, link_rate } in port_rows(reading) {
        let rates = [ingress, egress].map(|count| {
            let bits = count.bytes * 8.0;
            [
                number(count.packets),
                format!("{:.1}", bits / 1e6),
                format!("{:.0} %", bits / link_rate * 100.0),
            ]
        });
        table.add_row(place.into_iter().chain(rates.into_iter().flatten()).chain([number(rejected.packets)]));
    }
    with_whole_words(table)
}

/// The counters of one port.
struct PortRow {
    /// The switch, and a text with the port and the node at the other end of its link.
    place: [String; 2],
    ingress: Count,
    egress: Count,
    rejected: Count,
    /// The link's rate, in bit/s.
    link_rate: f64,
}

fn port_rows(reading: &Reading) -> impl Iterator<Item = PortRow> {
    reading.switches.iter().flat_map(|switch| {
        switch.ports.iter().map(|(port, counts)| {
            let [ingress, egress, rejected] = PORT_KINDS.map(|kind| get(counts, kind));
            let link = switch.links.get(port).cloned().unwrap_or_default();
            let place = [switch.name.clone(), format!("{port} {}", link.neighbour)];
            PortRow { place, ingress, egress, rejected, link_rate: link.rate as f64 }
        })
    })
}

/// Returns all reasons for which any of these switches has counted a packet of the job, the usual ones
/// first.
fn reasons<'a>(job: &str, switches: &[&'a SwitchReading]) -> Vec<&'a str> {
    let counts = switches.iter().filter_map(|switch| switch.jobs.get(job)).flatten();
    let counted = counts.filter(|(_, count)| count.packets > 0.0);
    let occur: BTreeSet<&str> = counted.map(|(reason, _)| reason.as_str()).collect();
    let usual = ORDER.iter().copied().filter(|reason| occur.contains(reason));
    let others = occur.iter().copied().filter(|reason| !ORDER.contains(reason));
    usual.chain(others).collect()
}

fn get(counts: &Counts, what: &str) -> Count {
    counts.get(what).copied().unwrap_or_default()
}

fn number(value: f64) -> String {
    HumanCount(value.round() as u64).to_string()
}

fn bytes(value: f64) -> String {
    HumanBytes(value.round() as u64).to_string()
}

#[cfg(test)]
mod tests {
    use tributary_api::v1;

    use super::*;

    fn counter(reason: &str, packets: u64) -> v1::JobCounter {
        v1::JobCounter { job: "a".into(), reason: reason.into(), packets, ..Default::default() }
    }

    fn port(kind: &str, packets: u64, bytes: u64) -> v1::PortCounter {
        let (kind, neighbour) = (kind.into(), "w0".into());
        v1::PortCounter { port: 3, kind, packets, bytes, neighbour, link_rate: 50_000_000 }
    }

    #[test]
    fn a_job_without_a_packet_has_none_and_no_empty_table() {
        let switch = v1::SwitchCounters {
            name: "leaf0".into(),
            jobs: vec![counter("received", 0), counter("result", 0)],
            ..v1::SwitchCounters::default()
        };
        assert_eq!(text(&Reading::new(&[switch], &[]), false), "packets of job a: none");
    }

    #[test]
    fn every_reason_has_a_row_and_every_switch_a_column() {
        let switch = |name: &str| v1::SwitchCounters {
            name: name.into(),
            jobs: vec![counter("result", 7), counter("received", 12_345)],
            ports: vec![port("egress", 9, 2048)],
            ..v1::SwitchCounters::default()
        };
        let text = text(&Reading::new(&[switch("leaf0"), switch("root")], &[]), false);
        for part in ["leaf0", "root", "12,345", "result", "2.00 KiB"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.find("received") < text.find("result"));
    }

    #[test]
    fn without_jobs_only_ports_are_shown() {
        let switch = v1::SwitchCounters {
            name: "leaf".into(),
            jobs: Vec::new(),
            ports: vec![port("ingress", 1_000, 1_250_000)],
            ..v1::SwitchCounters::default()
        };
        let text = text(&Reading::new(&[switch], &[]), true);
        assert!(text.starts_with("frames and bytes a second"), "{text}");
        for part in ["w0", "1,000", "10.0", "20 %"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn counters_that_are_not_of_now_are_marked() {
        let switch = |name: &str, age| v1::SwitchCounters {
            name: name.into(),
            unreachable: Some("it has not answered within 0.8 s".into()),
            age_milliseconds: age,
            ..v1::SwitchCounters::default()
        };
        let unreachable = v1::Switch {
            name: "leaf0".into(),
            state: v1::SwitchState::Unreachable.into(),
            state_milliseconds: 12_000,
            reason: "no answer".into(),
            ..v1::Switch::default()
        };
        let slow =
            v1::Switch { name: "leaf1".into(), state: v1::SwitchState::Up.into(), ..v1::Switch::default() };
        let counters = [switch("leaf0", Some(14_200)), switch("leaf1", None)];
        assert_eq!(
            text(&Reading::new(&counters, &[unreachable, slow]), false),
            "switch leaf0 has been unreachable for 12.0 s: no answer; its counters are 14.2 s old\n\
             switch leaf1: it has not answered within 0.8 s; its counters were never read"
        );
    }
}
