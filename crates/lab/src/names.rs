//! Names of namespaces and interfaces. They depend only on the lab's name and the topology.

/// The prefix of all names of labs' namespaces, because namespaces are machine-wide.
const PREFIX: &str = "tributary";
/// The longest name of an interface that the kernel allows (`IFNAMSIZ` less the final zero).
const MAX_INTERFACE_NAME: usize = 15;
/// The greatest length of a lab's name, in bytes.
/// With the longest node name, the namespace's name is still a valid file name.
const MAX_LAB_NAME: usize = 32;

/// The bridge in a switch's namespace, if a kernel bridge replaces the switch.
pub(crate) const BRIDGE: &str = "br0";
/// A station's interface on the management network. At the controller, it is the bridge of that
/// network.
pub(crate) const MANAGEMENT: &str = "mgmt0";
/// A bridge without ports in the namespace of a link's sender. Lost frames are forwarded to it.
pub(crate) const LOST: &str = "lost0";

/// Returns true if a lab may have this name.
///
/// The name has no dot, because dots separate the parts of a namespace's name. It does not start with a
/// hyphen, because commands would take it for an option.
pub(crate) fn is_lab_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=MAX_LAB_NAME).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with('-')
}

/// Returns the name of a station's network namespace.
pub(crate) fn namespace(lab: &str, station: &str) -> String {
    format!("{PREFIX}.{lab}.{station}")
}

/// Returns the lab to which a namespace belongs; `None` if it belongs to no lab.
pub(crate) fn lab_of(namespace: &str) -> Option<&str> {
    let (lab, _station) = namespace.strip_prefix(PREFIX)?.strip_prefix('.')?.split_once('.')?;
    Some(lab)
}

/// Returns the name of the interface at a node's port. A long node name is shortened; the port makes
/// the result unique in its namespace.
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
