//! Embeds the kernel programs if `cargo xtask build` left an object; otherwise the proxy is built without them, and
//! says so when it is asked to use them.

use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kernel");
    // The folder is watched, not the file: a missing file would make every build look outdated.
    let _ = std::fs::create_dir_all(&folder);
    println!("cargo::rerun-if-changed={}", folder.display());

    println!("cargo::rustc-check-cfg=cfg(kernel_object)");
    let object = folder.join("weir-ebpf.o");
    if object.is_file() {
        println!("cargo::rustc-cfg=kernel_object");
        println!("cargo::rustc-env=WEIR_KERNEL_OBJECT={}", object.display());
    }
}
