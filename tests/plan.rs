//! Tests of the output of `tributary plan` and `topology`, and of the input that they refuse.

use std::fs;

use serde_json::Value;
use tributary_testkit::binary::{json, refused, stderr, tributary};
use tributary_testkit::root;

/// Returns the plan for a gradient of 1 MiB as JSON.
fn plan(options: &[&str]) -> Value {
    json(&[&["plan", "--json", "--size", "1MiB"], options].concat())
}

fn printed(arguments: &[&str]) -> String {
    let output = tributary(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_level_halves_what_goes_on() {
    let into_server = |aggregation| {
        let plan = plan(&["--aggregation", aggregation]);
        plan["traffic"]["into_server"].as_u64().unwrap()
    };
    let tree = into_server("tree");
    assert_eq!((into_server("leaf"), into_server("none")), (4 * tree, 8 * tree));
}

#[test]
fn people_see_the_tree_the_stacks_the_bytes_and_the_gain() {
    let shown = printed(&["plan"]);
    for piece in [
        "three-tier-8",
        "ps  finishes 1 stream",
        "│       └── w3  rank 3",
        "leaf2:1 +1/2 → mid1:1 +0/2 → root:1 +1/2 → ps +0/1",
        "root:3 ○ → mid1:2 ○ → leaf2:3 ○",
        "into the server 70.4 MiB",
        "as fast as a ring all-reduce (112.0 MiB a link",
    ] {
        assert!(shown.contains(piece), "{piece:?} is not in\n{shown}");
    }
    assert!(!shown.contains("P4Runtime") && !shown.contains("load"), "nothing has any:\n{shown}");
}

#[test]
fn slots_addresses_mtus_and_loads_of_a_network_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.toml");
    let text = "name = \"net\"\ndefaults = { rate = \"10 Gbit/s\", mtu = 9000 }\n\
                switch = [{ name = \"leaf\", slots = 2048, p4runtime = \"10.255.0.11:9559\" }]\n\
                host = [{ name = \"ps\", role = \"server\" }, { name = \"w0\", role = \"worker\" }]\n\
                link = [{ ends = [\"leaf\", \"ps\"], load = [\"2 Gbit/s\", \"1 Gbit/s\"] }, \
                { ends = [\"leaf\", \"w0\"], mtu = 1500 }]\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let network = json(&["topology", file, "--json"]);
    let leaf = &network["nodes"][0];
    assert_eq!((&leaf["slots"], &leaf["p4runtime"]), (&2048.into(), &"10.255.0.11:9559".into()));
    let links = &network["links"];
    assert_eq!((&links[0]["mtu"], &links[1]["mtu"]), (&9000.into(), &1500.into()));
    assert_eq!(links[0]["load"], serde_json::json!([2_000_000_000_u64, 1_000_000_000]));
    let shown = printed(&["topology", file]);
    for piece in ["switch, 2048 slots", "10.255.0.11:9559", "9000", "2 Gbit/s, 1 Gbit/s"] {
        assert!(shown.contains(piece), "{piece:?} is not in\n{shown}");
    }
    assert!(shown.starts_with("net\n"), "a colon before no description:\n{shown}");
}

#[test]
fn it_says_where_nothing_is_gained() {
    let shown = printed(&["plan", "topologies/two-workers.toml"]);
    assert!(shown.contains("gains nothing here"), "{shown}");
    let shown = printed(&["plan", "--topology", "topologies/plain-middle-4.toml"]);
    assert!(shown.contains("middle is not programmable") && shown.contains("unicast results"), "{shown}");
}

#[test]
fn the_picture_has_every_node_and_link() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tree.svg");
    printed(&["plan", "--topology", "topologies/leaf-spine-8.toml", "--plot", file.to_str().unwrap()]);
    let picture = fs::read_to_string(&file).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    for name in ["ps", "w7", "spine0", "spine1", "leaf3", "aggregates 3", "not used"] {
        assert!(picture.contains(name), "{name}");
    }
    // 13 links of the tree in two directions, and 4 links that the job does not use.
    assert_eq!(picture.matches("Mbit/s, in use").count(), 2 * 13 + 4);
}

#[test]
fn the_picture_of_a_large_network_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("tree.toml"), printed(&["topology", "--fat-tree", "8", "--workers", "64"])).unwrap();
    printed(&["plan", "--topology", &file("tree.toml"), "--plot", &file("tree.svg")]);
    let picture = fs::read_to_string(file("tree.svg")).unwrap();
    let width = picture.split_once("width=\"").unwrap().1.split_once('"').unwrap().0;
    assert!(width.parse::<f64>().unwrap() < 5000.0, "it is {width} pixels wide");
    let missing = (0..64).find(|worker| {
        let [last, others] = [format!("w{worker}<"), format!("w{worker},")];
        !picture.contains(&last) && !picture.contains(&others)
    });
    assert_eq!(missing, None, "the picture does not name this worker");
}

#[test]
fn a_plan_says_what_embedded_switches_cannot_carry() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fast.toml");
    let slow = fs::read_to_string(root().join("topologies/three-tier-8.toml")).unwrap();
    let fast = slow.replace("50 Mbit/s", "100 Gbit/s");
    assert_ne!(slow, fast);
    fs::write(&file, fast).unwrap();
    assert!(printed(&["plan", "--topology", file.to_str().unwrap()]).contains("with embedded switches"));
    assert!(!printed(&["plan"]).contains("with embedded switches"));
}

#[test]
fn a_description_cannot_break_the_picture() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("topologies/two-workers.toml")).unwrap();
    let topology = folder.path().join("hostile.toml");
    fs::write(&topology, text.replace("2 workers and", "</text><script>&")).unwrap();
    let file = folder.path().join("tree.svg");
    printed(&["plan", "--topology", topology.to_str().unwrap(), "--plot", file.to_str().unwrap()]);
    let picture = fs::read_to_string(&file).unwrap();
    assert!(picture.contains("&lt;script&gt;&amp;") && !picture.contains("<script>"));
}

#[test]
fn wrong_use_is_told_from_failure() {
    refused(&["plan", "--size", "much"], 2, &["--size", "64MiB"]);
    refused(&["plan", "--size", "0"], 2, &["--size"]);
    refused(&["plan", "--window", "100"], 2, &["--window", "power of two"]);
    refused(&["plan", "--aggregation", "all"], 2, &["tree", "leaf", "none"]);
    refused(&["plan", "--plot", "no/such/folder/tree.svg"], 1, &["no/such/folder/tree.svg"]);
    refused(&["plan", "--topology", "no/such/file.toml"], 1, &["no/such/file.toml"]);
}

#[test]
fn a_network_is_shown_with_what_its_file_leaves_out() {
    let network = json(&["topology", "topologies/plain-middle-4.toml", "--json"]);
    let node =
        |name: &str| network["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).unwrap();
    assert_eq!((&node("leaf1")["id"], &node("leaf1")["programmable"]), (&4.into(), &true.into()));
    assert_eq!(node("middle")["programmable"], false);
    let w3 = node("w3");
    assert_eq!(
        (&w3["role"], &w3["ip"], &w3["prefix_bits"]),
        (&"worker".into(), &"10.0.0.5".into(), &16.into())
    );
    let link = &network["links"][3];
    assert_eq!(link["rate"], 50_000_000);
    assert_eq!(
        link["ends"],
        serde_json::json!([{ "node": "middle", "port": 3 }, { "node": "leaf1", "port": 1 }])
    );
    assert_eq!((&link["mtu"], &link["load"]), (&1500.into(), &serde_json::json!([0, 0])));
    let shown = printed(&["topology", "topologies/plain-middle-4.toml"]);
    for piece in
        ["switch, not programmable", "10.0.0.5/16", "02:00:0a:00:00:05", "middle:3 – leaf1:1", "50 Mbit/s"]
    {
        assert!(shown.contains(piece), "{piece:?} is not in\n{shown}");
    }
}

#[test]
fn the_file_of_a_fat_tree_can_be_planned_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fat-tree.toml");
    fs::write(&file, printed(&["topology", "--fat-tree", "8", "--workers", "100", "--rate", "25gbit/s"]))
        .unwrap();
    let file = file.to_str().unwrap();
    let plan = plan(&["--topology", file]);
    assert_eq!(plan["workers"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&plan["server"]["fan_in"], &plan["traffic"]["links"][0]["rate"]),
        (&1.into(), &25_000_000_000u64.into())
    );
    refused(&["topology", "--fat-tree", "7"], 2, &["even number"]);
    refused(&["topology", "--fat-tree", "4", "--workers", "16"], 2, &["16 workers", "16 hosts"]);
    refused(&["topology", "--fat-tree", "4", "--rate", "fast"], 2, &["--rate", "100 Gbit/s"]);
    refused(&["topology", "--workers", "4"], 2, &["--fat-tree"]);
}
