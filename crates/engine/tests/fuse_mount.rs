//! The mount against the real kernel: what programs see through it.

mod fuse_support;

use fuse_support::{Mount, Tree, memory};
use headrace_engine::fuse::Mode;
use headrace_engine::vfs::ROOT;

#[test]
fn first() {
    let tree = Tree::default();
    tree.put(ROOT, "hello", memory(b"hello world"));
    let mount = Mount::new(tree, Mode::Auto);
    println!("{:?}", mount.handle().mode());
    assert_eq!(std::fs::read(mount.path("hello")).unwrap(), b"hello world");
    let names: Vec<_> = std::fs::read_dir(mount.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["hello"]);
}
