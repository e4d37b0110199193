//! How much memory there is for a model: what the system says is free, and what the group of processes that this one is in may have.
//!
//! Linux alone; elsewhere nothing is known, and nothing is refused. It does not know what the memory is wanted for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The deepest group of processes that is looked at.
const DEPTH_MAX: usize = 32;

/// Memory of this machine, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All that there is, or all that this process may have.
    pub total_bytes: u64,
    /// What may still be had: free, or holding nothing but copies of files.
    pub free_bytes: u64,
    /// The group whose limit says so, where it is not the machine itself.
    pub limited_by: Option<String>,
}

impl Memory {
    /// Of this machine, if it says.
    pub fn of_this_machine() -> Option<Self> {
        Self::read(Path::new("/"))
    }

    /// From the files of Linux below `root`.
    fn read(root: &Path) -> Option<Self> {
        let info = fs::read_to_string(root.join("proc/meminfo")).ok()?;
        let line = |name: &str| {
            let rest = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        let total = line("MemTotal")?;
        // Kernels before 3.14 do not say what is available.
        let free = line("MemAvailable").or_else(|| Some(line("MemFree")? + line("Cached")?))?;
        let mut memory = Self { total_bytes: total, free_bytes: free, limited_by: None };
        for group in groups(root) {
            let Some((limit, used)) = group_state(&group) else { continue };
            if limit < memory.total_bytes {
                memory.total_bytes = limit;
                memory.limited_by = Some(group.strip_prefix(root).unwrap_or(&group).display().to_string());
            }
            memory.free_bytes = memory.free_bytes.min(limit.saturating_sub(used));
        }
        Some(memory)
    }
}

/// Bytes that this program had resident when it was first asked, pages that others share counted in part; nothing where the system does not say.
/// To be asked before a model is opened.
pub fn program_bytes() -> Option<u64> {
    static FOUND: OnceLock<Option<u64>> = OnceLock::new();
    *FOUND.get_or_init(|| resident_bytes(Path::new("/")))
}

/// What this process has resident now, pages that others share counted in part.
pub fn resident_bytes(root: &Path) -> Option<u64> {
    let rollup = fs::read_to_string(root.join("proc/self/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The groups that this process is in, innermost first, of either version.
fn groups(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let mount = match controllers {
            "" => root.join("sys/fs/cgroup"),
            _ if controllers.split(',').any(|name| name == "memory") => root.join("sys/fs/cgroup/memory"),
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        let is_plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        // In a container the path is that of the host, and the mount is the group itself.
        let inner = if is_plain {
            path.ancestors().take(DEPTH_MAX).map(|part| mount.join(part)).collect()
        } else {
            vec![mount]
        };
        groups.extend(inner);
    }
    groups
}

/// The limit of a group, and what of it is in use and cannot be taken back.
fn group_state(group: &Path) -> Option<(u64, u64)> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let stat = |name: &str| {
        let rest = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        rest.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    // Copies of files are given up when room is needed: mapped weights are such copies.
    let (limit, used, files) = match (number("memory.max"), number("memory.limit_in_bytes")) {
        (Some(limit), _) => (limit, number("memory.current")?, stat("inactive_file") + stat("active_file")),
        (None, Some(limit)) => {
            let files = stat("total_inactive_file") + stat("total_active_file");
            (limit, number("memory.usage_in_bytes")?, files)
        }
        (None, None) => return None,
    };
    Some((limit, used.saturating_sub(files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str =
        "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\nCached: 5 kB\n";
    const GB: u64 = 1 << 30;

    fn machine(files: &[(&str, &str)]) -> Memory {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files.iter().chain([&("proc/meminfo", MEMINFO)]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Memory::read(root.path()).unwrap()
    }

    #[test]
    fn without_groups_the_machine_says() {
        let memory = machine(&[]);
        assert_eq!((memory.total_bytes, memory.free_bytes), (16_000_000 << 10, 8_000_000 << 10));
        assert_eq!(memory.limited_by, None);
    }

    #[test]
    fn what_is_resident_is_counted_with_its_share_of_what_others_have_too() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(resident_bytes(root.path()), None);
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let text = "55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss:  7064 kB\nPss:  5359 kB\nPss_Anon:  1300 kB\n";
        fs::write(root.path().join("proc/self/smaps_rollup"), text).unwrap();
        assert_eq!(resident_bytes(root.path()), Some(5359 << 10));
        assert!(program_bytes().is_none_or(|bytes| bytes > 100_000));
    }

    #[test]
    fn the_tightest_of_nested_groups_counts() {
        let two = (2 * GB).to_string();
        let memory = machine(&[
            ("proc/self/cgroup", "0::/user.slice/job.scope\n"),
            ("sys/fs/cgroup/user.slice/memory.max", &two),
            ("sys/fs/cgroup/user.slice/memory.current", &GB.to_string()),
            ("sys/fs/cgroup/user.slice/memory.stat", "anon 5\ninactive_file 268435456\nactive_file 268435456\n"),
            ("sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/job.scope/memory.current", "5\n"),
        ]);
        assert_eq!((memory.total_bytes, memory.free_bytes), (2 * GB, 2 * GB - GB / 2));
        assert_eq!(memory.limited_by.as_deref(), Some("sys/fs/cgroup/user.slice"));
    }

    #[test]
    fn groups_of_the_first_version_and_of_containers_count_too() {
        let memory = machine(&[
            ("proc/self/cgroup", "12:cpu:/x\n5:memory:/docker/abc\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", &(2 * GB).to_string()),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", &GB.to_string()),
        ]);
        assert_eq!((memory.total_bytes, memory.free_bytes), (2 * GB, GB));
        let none = machine(&[
            ("proc/self/cgroup", "5:memory:/../..\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5"),
        ]);
        assert_eq!(none.limited_by, None);
    }
}
