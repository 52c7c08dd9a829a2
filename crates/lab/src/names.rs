//! Names of namespaces and interfaces: the same for the same topology, on every machine.

/// Namespaces are machine-wide: all names of ours begin with this.
const PREFIX: &str = "tributary";
/// The kernel's limit for the name of an interface (`IFNAMSIZ` less the final zero).
const MAX_INTERFACE_NAME: usize = 15;
/// The longest name of a lab; even with the longest node name a namespace's name is a short file name.
const MAX_LAB_NAME: usize = 32;

/// The bridge in a switch's namespace, where kernel bridges stand in for our switches.
pub(crate) const BRIDGE: &str = "br0";
/// A station's interface on the management network; the bridge of that network at the controller.
pub(crate) const MANAGEMENT: &str = "mgmt0";
/// Where lost frames go: a bridge without ports, in the namespace of the link's sender.
pub(crate) const LOST: &str = "lost0";

/// Returns true if a lab may have this name.
/// No dot: it separates the parts of a namespace's name. No hyphen at the start: commands would take it for an option.
pub(crate) fn is_lab_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=MAX_LAB_NAME).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with('-')
}

/// The network namespace of a station.
pub(crate) fn namespace(lab: &str, station: &str) -> String {
    format!("{PREFIX}.{lab}.{station}")
}

/// The lab that a namespace belongs to; `None` when it is not ours.
pub(crate) fn lab_of(namespace: &str) -> Option<&str> {
    let (lab, _station) = namespace.strip_prefix(PREFIX)?.strip_prefix('.')?.split_once('.')?;
    Some(lab)
}

/// The interface of a node's port. A long node name is cut: within a namespace the port is unique.
pub(crate) fn interface(node: &str, port: u16) -> String {
    let suffix = format!("-eth{port}");
    let room = MAX_INTERFACE_NAME - suffix.len();
    let node: String = node.chars().take(room).collect();
    node + &suffix
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_those_that_the_documentation_promises() {
        assert_eq!(namespace("demo", "leaf0"), "tributary.demo.leaf0");
        assert_eq!(interface("leaf0", 3), "leaf0-eth3");
        assert_eq!(interface("top-of-rack-switch-17", 128), "top-of-r-eth128");
    }

    #[test]
    fn a_lab_name_must_leave_the_namespace_names_unambiguous() {
        for good in ["a", "three-tier-8", "A_1"] {
            assert!(is_lab_name(good), "{good:?}");
        }
        for bad in ["", "-a", "a.b", "a/b", "..", "a b", "ä", &"x".repeat(33)] {
            assert!(!is_lab_name(bad), "{bad:?}");
        }
        assert_eq!(lab_of("tributary.a.b.c"), Some("a"));
        for foreign in ["tributary", "tributary.a", "tributaryx.a.b", "mininet"] {
            assert_eq!(lab_of(foreign), None, "{foreign:?}");
        }
    }

    proptest! {
        #[test]
        fn interface_names_fit_and_differ_within_a_node(
            node in "[-_.a-zA-Z0-9]{1,32}", a in 1u16..=500, b in 1u16..=500,
        ) {
            let [first, second] = [a, b].map(|port| interface(&node, port));
            prop_assert!(first.len() <= MAX_INTERFACE_NAME);
            prop_assert_eq!(first == second, a == b);
            for own in [BRIDGE, MANAGEMENT, LOST, "lo"] {
                prop_assert_ne!(&first, own);
            }
        }

        #[test]
        fn a_namespace_tells_its_lab(lab in "[_a-zA-Z0-9][-_a-zA-Z0-9]{0,31}", station in "[-_.a-zA-Z0-9]{1,32}") {
            let namespace = namespace(&lab, &station);
            prop_assert_eq!(lab_of(&namespace), Some(lab.as_str()));
        }
    }
}
