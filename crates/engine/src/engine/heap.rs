//! The heap of this process.

/// Gives free memory back to the system. glibc keeps what is freed below anything that is still in use, so a long list
/// that was read once would count against the process for as long as it lives (`malloc_trim(3)`).
pub(super) fn give_back_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::process::Command;

    const PART: &str = "engine::heap::tests::part_in_a_process_of_its_own";

    fn anonymous_kibibytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("readable");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("told");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    #[test]
    #[ignore = "a part of what_is_free_between_things_in_use_goes_back"]
    fn part_in_a_process_of_its_own() {
        let before = anonymous_kibibytes();
        let mut names: Vec<_> = (0..300_000).map(|number| Some(format!("{number:0100}"))).collect();
        names.iter_mut().enumerate().filter(|(number, _)| number % 1000 != 0).for_each(|(_, name)| drop(name.take()));
        let kept = anonymous_kibibytes();
        super::give_back_free_memory();
        let after = anonymous_kibibytes();
        assert!(names[0].is_some());
        let most = before + (names.len() * size_of::<Option<String>>()) as u64 / 1024 + 4096;
        assert!(kept > most + 16_384 && after < most, "{before} KiB, {kept} with free memory, {after} without");
    }

    #[test]
    fn what_is_free_between_things_in_use_goes_back() {
        let program = std::env::current_exe().expect("known");
        let part = Command::new(program).args([PART, "--exact", "--ignored"]).output().expect("run");
        assert!(part.status.success(), "{}", String::from_utf8_lossy(&part.stdout));
    }
}
