//! Sets the soname of the shared library, by which programs load it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The number grows when a program that was compiled against an older header could fail.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtributary.so.0");
}
