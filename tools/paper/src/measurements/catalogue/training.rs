//! Measurements of whole trainings, and of the gain from their parts.

use super::*;

/// Measures the countermeasures against slow processes.
pub(crate) const DEGRADED: Measurement = Measurement {
    title: "Countermeasures against slow processes",
    said: "Eight workers in a lab of `topologies/three-tier-8.toml` train for 60 steps. Slow workers are four times \
           slower than the others. The workers' accelerators are emulated; `docs/degraded.md` describes the method.",
    runs: &[MeasuredCommand {
        heading: "A step's time",
        line: "tributary-bench degraded --json",
        tables: &[
            Table {
                csv: Some("phases"),
                rows: "phases.*",
                shown: Shown::Columns(&[
                    ("", |row| row.text("name")),
                    ("θ", |row| row.text("theta")),
                    ("members", |row| row.text("members")),
                    ("a step", |row| format!("{:.3} s", row.number("step_s"))),
                    ("relative to undisturbed", |row| format!("{:.2}", row.number("of_undisturbed"))),
                    ("predicted", |row| format!("{:.3} s", row.number("predicted_s"))),
                    ("error", |row| per_cent(row.number("prediction_error"), 0)),
                    ("accuracy", |row| match row.number("accuracy") {
                        accuracy if accuracy.is_nan() => String::new(),
                        accuracy => per_cent(accuracy, 1),
                    }),
                    ("steps until left out", |row| row.text("steps_until_change")),
                    ("until back in the job", |row| row.text("steps_until_return")),
                ]),
            },
            Table {
                csv: None,
                rows: "checks.*",
                shown: Shown::Columns(&[
                    ("requirement", |row| row.text("what")),
                    ("measured", |row| format!("{:.3}", row.number("measured"))),
                    ("limit", |row| row.text("limit")),
                    ("", |row| verdict(row, "ok")),
                ]),
            },
        ],
        ..RUN
    }],
};

/// Gradients that are sent at time points.
pub(crate) const TIME_POINTS: Measurement = Measurement {
    title: "Gradients sent at time points",
    said: "Backward passes of a model whose gradients come in bursts, and training steps of the examples, over links \
           of 100 Mbit/s. The ways to send gradients take turns; `docs/time-points.md` describes them.",
    runs: &[
        MeasuredCommand {
            heading: "Bursts, two-workers",
            line: "tributary-bench schedule --topology topologies/two-workers.toml --json",
            tables: &[ways("two-workers"), SCHEDULED, LIMITS],
            ..RUN
        },
        MeasuredCommand {
            heading: "Bursts, two-leaves-4",
            line: "tributary-bench schedule --topology topologies/two-leaves-4.toml --json",
            tables: &[ways("two-leaves-4"), SCHEDULED, LIMITS],
            ..RUN
        },
        MeasuredCommand {
            heading: "Bursts, three-tier-8",
            line: "tributary-bench schedule --topology topologies/three-tier-8.toml --json",
            tables: &[ways("three-tier-8"), SCHEDULED, LIMITS],
            ..RUN
        },
        MeasuredCommand {
            heading: "A convolutional network, two-leaves-4",
            line: "tributary-bench schedule --example examples/cnn.py --topology \
                   topologies/two-leaves-4.toml --rounds 3 --json",
            tables: &[ways("cnn"), SCHEDULED, LIMITS],
            ..RUN
        },
        MeasuredCommand {
            heading: "A transformer, two-leaves-4",
            line: "tributary-bench schedule --example examples/transformer.py --topology \
                   topologies/two-leaves-4.toml --rounds 3 --json",
            tables: &[ways("transformer"), SCHEDULED, LIMITS],
            ..RUN
        },
    ],
};

const fn ways(csv: &'static str) -> Table {
    Table {
        csv: Some(csv),
        rows: "ways.*",
        shown: Shown::Columns(&[
            ("gradients are sent", |row| match row.text("name").as_str() {
                "points" => "at time points".to_owned(),
                "tensor" => "each tensor by itself".to_owned(),
                "one" => "all together".to_owned(),
                size => format!("in buckets of {size}"),
            }),
            ("time, ms", |row| spread(row, "seconds", 1, 1e3)),
            ("relative to time points", |row| ratio(row, "to_points")),
        ]),
    }
}

const SCHEDULED: Table = Table {
    csv: None,
    rows: "",
    shown: Shown::Columns(&[
        ("profiles", |row| row.text("profiles")),
        ("sets in the profile", |row| row.text("profiled_sets")),
        ("sets after the trial", |row| row.text("sets")),
        ("late sets", |row| row.text("late_sets")),
    ]),
};

const LIMITS: Table = Table {
    csv: None,
    rows: "limits.*",
    shown: Shown::Columns(&[("requirement", |row| row.text("what")), ("", |row| verdict(row, "holds"))]),
};

/// A PyTorch script over the fabric and over gloo.
pub(crate) const PYTORCH: Measurement = Measurement {
    title: "PyTorch over the fabric and over gloo",
    said: "`examples/cnn.py` trains with `DistributedDataParallel` on four workers of `topologies/two-leaves-4.toml`, \
           with links of 100 Mbit/s. The fabric and gloo take turns for three rounds; each time is the median of a \
           round's steps. The other tables show single collectives: medians of five turns of the slowest rank's time. \
           The product leaves an all-gather to gloo; the time in the fabric is that of a broadcast from each rank.",
    runs: &[
        MeasuredCommand {
            heading: "Step time and accuracy",
            line: "python examples/compare.py cnn.py --rounds 3 --out FOLDER",
            report: Some("compare.json"),
            pictures: &[("compare.svg", "curves")],
            tables: &[Table {
                csv: Some("steps"),
                rows: "*",
                shown: Shown::Columns(&[
                    ("parameters", |row| row.text("parameters")),
                    ("fabric, ms", |row| list(row, "milliseconds.tributary", ", ", whole)),
                    ("gloo, ms", |row| list(row, "milliseconds.gloo", ", ", whole)),
                    ("fabric / gloo", |row| format!("{:.2}", row.number("ratio"))),
                    ("accuracy over the fabric", |row| per_cent(row.number("accuracies.tributary"), 1)),
                    ("over gloo", |row| per_cent(row.number("accuracies.gloo"), 1)),
                    ("greatest difference of the loss curves", |row| format!("{:.0e}", row.number("apart"))),
                ]),
            }],
        },
        MeasuredCommand {
            heading: "Collectives of four ranks",
            line: "tributary lab run topologies/two-leaves-4.toml -- python tools/paper/collectives.py \
                   FOLDER/collectives.json",
            report: Some("collectives.json"),
            tables: &[collectives("four-ranks")],
            ..RUN
        },
        MeasuredCommand {
            heading: "Collectives of eight ranks, links of 50 Mbit/s",
            line: "tributary lab run topologies/three-tier-8.toml -- python tools/paper/collectives.py \
                   FOLDER/collectives.json",
            report: Some("collectives.json"),
            tables: &[collectives("eight-ranks")],
            ..RUN
        },
    ],
};

const fn collectives(csv: &'static str) -> Table {
    Table {
        csv: Some(csv),
        rows: "*",
        shown: Shown::Columns(&[
            ("collective", |row| row.text("collective")),
            ("ranks", |row| row.text("ranks")),
            ("MiB", |row| format!("{:.0}", row.number("bytes") / f64::from(1 << 20))),
            ("by gloo, ms", |row| milliseconds(row.number("gloo"))),
            ("in the fabric, ms", |row| milliseconds(row.number("fabric"))),
            ("ratio", |row| format!("{:.2}", row.number("ratio"))),
        ]),
    }
}

fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

/// Codecs on the gradients of one training.
pub(crate) const CODECS_ALONE: Measurement = Measurement {
    title: "Codecs, without a network",
    said: "The demo's network (100,234 parameters), 8 workers, 60 rounds, 3 seeds, with every gradient encoded and \
           decoded. *Error* is the mean squared error relative to the gradient's mean square; *error of the sum* \
           is the same for the sum of all workers' gradients. *Encodes* and *decodes* are GB of f32 a second on \
           all cores. On links slower than *pays below*, sending f32 takes longer than encoding, sending the code and \
           decoding.",
    runs: &[MeasuredCommand {
        heading: "By codec",
        line: "tributary ps compare codecs --plot FOLDER/codecs.svg --json",
        pictures: &[("codecs.svg", "codecs")],
        tables: &[
            Table {
                csv: Some("codecs"),
                rows: "codecs.*",
                shown: Shown::Columns(&[
                    ("codec", |row| row.text("codec")),
                    ("bytes", |row| row.text("bytes")),
                    ("reduction", |row| format!("{:.1}", row.number("ratio"))),
                    ("error", |row| format!("{:.4}", row.number("nmse"))),
                    ("error of the sum", |row| format!("{:.4}", row.number("nmse_of_sum"))),
                    ("accuracy", |row| per_cent(row.number("accuracy"), 2)),
                    ("encodes", |row| format!("{:.1}", row.number("encode_gb_per_s"))),
                    ("decodes", |row| format!("{:.1}", row.number("decode_gb_per_s"))),
                    ("pays below, Gbit/s", |row| match row.number("break_even_mbit_per_s") {
                        speed if speed.is_nan() => "–".to_owned(),
                        speed => format!("{:.1}", speed / 1e3),
                    }),
                ]),
            },
            GATES,
        ],
        ..RUN
    }],
};

/// Policies at one learning rate for all of them.
pub(crate) const POLICIES_ONE_RATE: Measurement = Measurement {
    title: "Synchronisation at one rate that is too high",
    said: "Eight workers with step times of 1, 1, 1.1, 1.2, 1.5, 2, 3 and 4 units train the demo's network over TCP \
           for 12 s. The learning rate is 0.25 for all policies, which is chosen to show the effect of staleness; \
           `docs/results/policies-digits` has the best rate of each policy. The order in which gradients arrive \
           differs between runs.",
    runs: &[MeasuredCommand {
        heading: "By policy",
        line: "tributary ps compare policies --json",
        tables: &[
            Table {
                csv: Some("policies"),
                rows: "policies.*",
                shown: Shown::Columns(&[
                    ("policy", |row| row.text("policy")),
                    ("accuracy", |row| per_cent(row.number("accuracy"), 1)),
                    ("accuracy of each seed, %", |row| {
                        list(row, "accuracies", " ", |share| format!("{:.1}", share * 100.0))
                    }),
                    ("staleness", |row| format!("{:.2}", row.number("staleness"))),
                    ("idle", |row| per_cent(row.number("idle"), 0)),
                    ("iterations", |row| format!("{:.0}", row.number("iterations"))),
                    ("updates", |row| format!("{:.0}", row.number("updates"))),
                ]),
            },
            GATES,
        ],
        ..RUN
    }],
};
