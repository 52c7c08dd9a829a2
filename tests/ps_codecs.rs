//! Tests of `tributary ps compare codecs`: CASQ must pass its gates on real gradients.

use std::fs;

use serde_json::Value;
use tributary_testkit::binary::{json, refused};

fn row<'a>(report: &'a Value, codec: &str) -> &'a Value {
    let rows = report["codecs"].as_array().unwrap();
    rows.iter().find(|row| row["codec"] == codec).unwrap_or_else(|| panic!("{codec} in {report}"))
}

#[test]
fn clusters_keep_the_accuracy_in_a_thirteenth_of_the_bytes() {
    // The test uses fewer seeds and rounds than the default, to save time.
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("codecs.svg");
    let mut arguments = vec!["ps", "compare", "codecs", "--json", "--seeds", "1", "--rounds", "40"];
    arguments.extend(["--plot", picture.to_str().unwrap()]);
    let report = json(&arguments);
    assert_eq!((&report["workers"], &report["rounds"], &report["seeds"]), (&8.into(), &40.into(), &1.into()));
    let gates = report["gates"].as_array().unwrap();
    assert_eq!(gates.len(), 3);
    assert!(gates.iter().all(|gate| gate["passed"] == true), "{report}");

    let number = |codec, key: &str| row(&report, codec)[key].as_f64().unwrap();
    assert!(number("casq-4", "values") >= 100_000.0);
    assert!(number("casq-4", "ratio") >= 13.0 && number("casq-4", "accuracy") > 0.9);
    assert_eq!(number("none", "nmse"), 0.0);
    // Clusters alone provide nearly the whole gain, buckets alone nearly none.
    assert!(number("casq-4, clusters only", "nmse") < 1.1 * number("casq-4", "nmse"));
    assert!(number("casq, buckets only", "nmse") > 0.8);
    let picture = fs::read_to_string(picture).unwrap();
    assert!(picture.contains("8 workers, 40 rounds") && picture.ends_with("</svg>\n"), "{picture}");
    for codec in report["codecs"].as_array().unwrap() {
        let name = codec["codec"].as_str().unwrap();
        let accuracy = format!("{:.2} %", 100.0 * codec["accuracy"].as_f64().unwrap());
        assert!([name, &accuracy].iter().all(|said| picture.contains(&format!("\n{said}\n"))), "{codec}");
        assert!(codec["encode_gb_per_s"].as_f64().unwrap() > 0.0, "{codec}");
        assert_eq!(codec["break_even_mbit_per_s"].is_null(), codec["codec"] == "none", "{codec}");
    }
}

#[test]
fn a_picture_that_cannot_be_is_refused_before_anything_is_measured() {
    // A training with this many rounds would not end, so the file's name must be refused first.
    let arguments = ["ps", "compare", "codecs", "--rounds", "4000000000", "--plot"];
    let refuse = |file, status, words: &[&str]| refused(&[&arguments[..], &[file]].concat(), status, words);
    refuse("codecs.pdf", 2, &["--plot", ".svg", ".png"]);
    refuse("no/such/folder/codecs.png", 1, &["no/such/folder/codecs.png"]);
}
