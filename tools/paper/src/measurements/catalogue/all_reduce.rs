//! Measurements of the all-reduce and of its parts.

use super::*;

/// The all-reduce, compared with all-reduces by hosts alone.
pub(crate) const ALLREDUCE: Measurement = Measurement {
    title: "The all-reduce compared with gloo and Open MPI",
    said: "All-reduces of 8 MiB of f32 over `topologies/three-tier-8.toml`, with links of the given rate. \
           `tools/bench/README.md` describes the method and its fairness. Contenders take turns; times are medians \
           over three rounds, with the fastest and the slowest round in brackets.",
    runs: &[
        MeasuredCommand {
            heading: "Links with an MTU of 1,500",
            line: "tributary-bench allreduce --rate 50mbit,100mbit,200mbit,1gbit --mtu 1500 \
                   --rounds 3 --out FOLDER --json",
            pictures: &[("allreduce.svg", "mtu-1500")],
            tables: &[SETTING, times("mtu-1500"), ratios("mtu-1500-ratios"), GATES],
            ..RUN
        },
        MeasuredCommand {
            heading: "Links with an MTU of 9,000",
            line: "tributary-bench allreduce --rate 50mbit,100mbit,200mbit,1gbit --mtu 9000 \
                   --rounds 3 --out FOLDER --json",
            pictures: &[("allreduce.svg", "mtu-9000")],
            tables: &[SETTING, times("mtu-9000"), ratios("mtu-9000-ratios"), GATES],
            ..RUN
        },
    ],
};

const SETTING: Table = Table {
    csv: None,
    rows: "",
    shown: Shown::Columns(&[
        ("rounds", |row| row.text("rounds")),
        ("all-reduces a round", |row| row.text("iterations")),
        ("gloo", |row| row.text("versions.gloo")),
        ("Open MPI", |row| row.text("versions.openmpi")),
    ]),
};

const fn times(csv: &'static str) -> Table {
    Table {
        csv: Some(csv),
        rows: "rows.*",
        shown: Shown::Pivot {
            corner: "time, ms",
            down: |row| case(row, ""),
            across: |row| rate(row.number("rate")),
            cell: |row| spread(row, "seconds", 0, 1e3),
        },
    }
}

const fn ratios(csv: &'static str) -> Table {
    Table {
        csv: Some(csv),
        rows: "ratios.*",
        shown: Shown::Pivot {
            corner: "ratio of times",
            down: |row| match (row.text("other.contender").as_str(), row.is("other.single_frames")) {
                ("ours", true) => format!("{} / without losses, single frames", case(row, "ours.")),
                ("ours", false) => format!("{} / without losses", case(row, "ours.")),
                _ => format!("{} / {}", case(row, "ours."), case(row, "other.")),
            },
            across: |row| rate(row.number("ours.rate")),
            cell: |row| ratio(row, "ratio"),
        },
    }
}

/// Returns the title of the case whose fields begin with `prefix`.
fn case(row: &ReportRow, prefix: &str) -> String {
    let field = |name: &str| format!("{prefix}{name}");
    let contender = row.text(&field("contender"));
    let title = match contender.as_str() {
        "ours" => "Tributary",
        "leaf" => "Tributary, leaves only",
        "openmpi" => "Open MPI",
        "openmpi-ring" => "Open MPI, ring",
        "server" => "server alone",
        other => other,
    };
    match row.number(&field("loss")) {
        loss if loss > 0.0 => format!("{title}, {} loss", per_cent(loss, 1)),
        _ if row.is(&field("single_frames")) => format!("{title}, single frames"),
        _ => title.to_owned(),
    }
}

fn rate(rate: f64) -> String {
    if rate < 1e9 { format!("{:.0} Mbit/s", rate / 1e6) } else { format!("{:.0} Gbit/s", rate / 1e9) }
}

/// The processor time of a host's agent.
pub(crate) const AGENT: Measurement = Measurement {
    title: "An agent's processor time",
    said: "Two workers and a server under one embedded switch, in network namespaces, over links without a rate \
           limit. A turn has eight all-reduces of 64 MiB. *To stored* is the ratio to an earlier measurement with 256 \
           values in a slice: 0.8 s of user and 3.3 s of system time per GiB. *Wanted* is the goal for this ratio: a \
           half with 256 values, and a fifth with 2,048.",
    runs: &[MeasuredCommand {
        heading: "Processor seconds of one agent for each GiB of the tensor",
        line: "tributary-bench agent --rounds 3 --json",
        tables: &[Table {
            csv: Some("agent"),
            rows: "cases.*",
            shown: Shown::Columns(&[
                ("values in a slice", |row| row.text("values")),
                ("user, s/GiB", |row| format!("{:.2}", row.number("user_seconds_per_gib.median"))),
                ("system, s/GiB", |row| format!("{:.2}", row.number("system_seconds_per_gib.median"))),
                ("together", |row| spread(row, "seconds_per_gib", 2, 1.0)),
                ("to stored", |row| format!("{:.2}", row.number("to_stored.together"))),
                ("wanted", |row| row.text("wanted")),
                ("frames/s", |row| format!("{:.0}", row.number("frames_per_second.median"))),
                ("tensor, MB/s", |row| format!("{:.0}", row.number("tensor_bytes_per_second.median") / 1e6)),
            ]),
        }],
        ..RUN
    }],
};

/// Makes the tables for measurements of single switches.
///
/// They show the items per second of each switch in a setting, and the ratios.
macro_rules! switch_tables {
    ($items:literal, $($setting:expr),+) => {
        &[
            Table {
                csv: Some("switches"),
                rows: "cases.*.candidates.*",
                shown: Shown::Columns(&[
                    $($setting,)+
                    ("switch", |row| candidate(&row.text("switch"))),
                    ($items, |row| spread(row, "per_second", 0, 1.0)),
                    ("cores of the switch", |row| format!("{:.2}", row.number("switch_cores.median"))),
                    ("of the generator", |row| format!("{:.2}", row.number("generator_cores.median"))),
                    ("of other processes", |row| format!("{:.2}", row.number("other_cores.median"))),
                    ("retransmitted", |row| row.text("resent")),
                ]),
            },
            Table {
                csv: Some("ratios"),
                rows: "cases.*.comparisons.*",
                shown: Shown::Columns(&[
                    $($setting,)+
                    ("switch", |row| candidate(&row.text("switch"))),
                    ("compared with", |row| candidate(&row.text("other"))),
                    ("ratio", |row| ratio(row, "ratio")),
                    ("at least", |row| row.text("limit")),
                    ("", |row| limited(row)),
                ]),
            },
        ]
    };
}

/// The embedded switch, compared with a bare loop and with BMv2.
pub(crate) const SWITCH: Measurement = Measurement {
    title: "One switch compared with a bare loop",
    said: "A switch aggregates the slices of two children over veth pairs: three runs of three seconds each, in \
           turns. The bare loop, `tools/bench/baselines/loop.c`, only receives, adds and sends. The embedded switch \
           takes part twice. *Embedded switch* handles one frame at a time, like the loop and BMv2. *Joined frames* \
           is its mode in labs: the kernel passes neighbouring frames to and from the switch as one frame. The limits \
           apply to this mode. BMv2 takes part if it is installed.",
    runs: &[MeasuredCommand {
        heading: "Slices a second",
        line: "tributary-bench switch --runs 3 --window 16,64,256 --json",
        tables: switch_tables!(
            "slices/s",
            ("values", |row| row.text("values")),
            ("window", |row| row.text("window"))
        ),
        ..RUN
    }],
};

/// The embedded switch, compared with BMv2, with programs other than this project's.
pub(crate) const FORWARDING: Measurement = Measurement {
    title: "Forwarding programs compared with BMv2",
    said: "A switch forwards packets of 128 bytes from two veth interfaces to a third: three runs of three seconds \
           each, in turns. `tools/bench/README.md` describes the programs and their entries. *Past its queues* means \
           that the switch sends by AF_XDP sockets, past the queues of its interfaces. BMv2 takes part if it is \
           installed.",
    runs: &[MeasuredCommand {
        heading: "Packets a second",
        line: "tributary-bench forwarding --runs 3 --json",
        tables: switch_tables!(
            "packets/s",
            ("program", |row| row.text("program")),
            ("window", |row| row.text("window"))
        ),
        ..RUN
    }],
};

/// Returns the verdict on a limit, or an empty text without a limit.
fn limited(row: &ReportRow) -> String {
    if row.number("limit").is_nan() { String::new() } else { verdict(row, "passed") }
}

fn candidate(name: &str) -> String {
    let title = match name {
        "softswitch" => "embedded switch",
        "joined" => "embedded switch, joined frames",
        "bypassing" => "embedded switch, past its queues",
        "loop" => "bare loop",
        "bmv2" => "BMv2",
        other => other,
    };
    title.to_owned()
}

/// An all-reduce of many tensors, compared with one tensor.
pub(crate) const OVERLAP: Measurement = Measurement {
    title: "Many tensors compared with one",
    said: "64 MiB over `topologies/three-tier-8.toml`, with links of 1 Gbit/s: reduced as one tensor, and as 64 \
           tensors of which two are in flight. The last two columns are for a tensor of 4 KiB.",
    runs: &[MeasuredCommand {
        heading: "The slowest rank's time",
        line: "tributary-bench overlap --json",
        tables: &[Table {
            csv: Some("overlap"),
            rows: "",
            shown: Shown::Columns(&[
                ("one tensor, s", |row| spread(row, "whole", 2, 1.0)),
                ("64 tensors, s", |row| spread(row, "parts", 2, 1.0)),
                ("ratio", |row| ratio(row, "ratio")),
                ("4 KiB, ms", |row| milliseconds(row.number("small.seconds.median"))),
                ("of this in the client, ms", |row| {
                    milliseconds(row.number("small.client_overhead_seconds.median"))
                }),
            ]),
        }],
        ..RUN
    }],
};

/// Measures the cost of tags.
pub(crate) const TAGS: Measurement = Measurement {
    title: "The cost of tags",
    said: "The time on one core to make the tag of a slice of 256 values, and to verify a sum, by the number of \
           members. Figures are medians of 21 rounds of 10 ms.",
    runs: &[MeasuredCommand {
        heading: "Nanoseconds a slice",
        line: "cargo bench --quiet --locked -p tributary-protocol --bench tags -- --json",
        tables: &[Table {
            csv: Some("tags"),
            rows: "*",
            shown: Shown::Columns(&[
                ("members", |row| row.text("members")),
                ("make", |row| format!("{:.0}", row.number("make_nanoseconds"))),
                ("verify", |row| format!("{:.0}", row.number("verify_nanoseconds"))),
            ]),
        }],
        ..RUN
    }],
};

/// The protocol under losses, simulated.
pub(crate) const LOSSES: Measurement = Measurement {
    title: "An all-reduce under losses, simulated",
    said: "The protocol's own code runs on a virtual clock: 8 workers under three tiers of switches, 15 links of 50 \
           Mbit/s with queues of 64 packets, a tensor of 8 MiB. `tools/sim/README.md` describes the simulator. \
           Figures are means of three seeds; the same command always gives the same numbers.",
    runs: &[
        MeasuredCommand {
            heading: "By loss",
            line: "tributary-bench simulate --json",
            tables: &[Table {
                csv: Some("losses"),
                rows: "*",
                shown: Shown::Columns(&[
                    ("loss on every link", |row| per_cent(row.number("loss"), 1)),
                    ("time", |row| format!("{:.2} s", row.number("seconds"))),
                    ("time / lossless", |row| format!("{:.2}", row.number("to_lossless"))),
                    ("time / ideal", |row| format!("{:.2}", row.number("to_ideal"))),
                    ("into the server, MB", |row| format!("{:.1}", row.number("bytes_into_server") / 1e6)),
                    ("all links, MB", |row| format!("{:.0}", row.number("bytes_on_all_links") / 1e6)),
                    ("retransmitted", |row| per_cent(row.number("retransmitted"), 1)),
                    ("timeouts", |row| format!("{:.0}", row.number("timeouts"))),
                ]),
            }],
            ..RUN
        },
        MeasuredCommand {
            heading: "Time divided by the lossless time, by window",
            line: "tributary-bench simulate --loss 0,0.001,0.01,0.05 --window 32,64,128,256,512 --json",
            tables: &[Table {
                csv: Some("windows"),
                rows: "*",
                shown: Shown::Pivot {
                    corner: "loss on every link",
                    down: |row| per_cent(row.number("loss"), 1),
                    across: |row| row.text("window"),
                    cell: |row| format!("{:.2}", row.number("to_lossless")),
                },
            }],
            ..RUN
        },
    ],
};

/// Measures all-reduces of an unmodified MPI program.
pub(crate) const MPI: Measurement = Measurement {
    title: "MPI_Allreduce in the fabric and by Open MPI",
    said: "`examples/mpi_latency.c`, which uses only MPI, adds f32 over four workers of \
           `topologies/two-leaves-4.toml`, one rank on each. Four ways take turns: the fabric by `libtributary-mpi.so` \
           without a threshold, with sums of the precision `standard` and `float32`, the algorithm that Open MPI \
           chooses, and Open MPI's ring. Open MPI uses TCP over the same links. Times are in microseconds, of the \
           slowest rank: medians of a round's all-reduces, of which the table shows the median over the rounds, and \
           the fastest and the slowest round. Ratios are the fabric's times by those of Open MPI's faster algorithm. \
           All ranks, agents and switches share this machine's processors. Every sum was checked.",
    runs: &[
        MeasuredCommand {
            heading: "Links of 1 Gbit/s",
            line: "python tools/paper/mpi.py topologies/two-leaves-4.toml FOLDER/mpi.json --mbit 1000",
            report: Some("mpi.json"),
            tables: &[mpi("gigabit")],
            ..RUN
        },
        MeasuredCommand {
            heading: "Links without a limit",
            line: "python tools/paper/mpi.py topologies/two-leaves-4.toml FOLDER/mpi.json",
            report: Some("mpi.json"),
            tables: &[mpi("no-limit")],
            ..RUN
        },
    ],
};

const fn mpi(csv: &'static str) -> Table {
    Table {
        csv: Some(csv),
        rows: "sizes.*",
        shown: Shown::Columns(&[
            ("bytes", |row| row.text("bytes")),
            ("fabric, standard", |row| spread(row, "fabric", 0, 1.0)),
            ("fabric, float32", |row| spread(row, "exact", 0, 1.0)),
            ("Open MPI", |row| spread(row, "open_mpi", 0, 1.0)),
            ("Open MPI, ring", |row| spread(row, "ring", 0, 1.0)),
            ("ratio, standard", |row| format!("{:.2}", row.number("fabric_ratio"))),
            ("ratio, float32", |row| format!("{:.2}", row.number("exact_ratio"))),
        ]),
    }
}
