//! The cores that this process may use: how many are real, and which share a memory.
//!
//! Two threads of one core share its arithmetic and its caches: a second one adds nothing to a product and makes every barrier
//! wait for the slower of the two. So the default is a thread for each core, not for each thread that the core offers.
//! Where a machine has several memories (NUMA), threads stand in the order of those and stay on their cores: a thread reads the
//! same share of the weights in every pass, from pages that lie near it if it was the first to touch them: weights that are read
//! from the disk while the model runs, and caches, but not what the system held before. None of this was measured: no such
//! machine was at hand. With one memory the system places threads better than we could: it moves them away from a busy core.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::thread;

/// Cores in the order in which threads take them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// One of the logical CPUs of each core, those of a memory one after the other.
    cores: Vec<usize>,
    /// How many memories they are near to.
    memories: usize,
    /// Logical CPUs, or what the process was given of them.
    parallelism: usize,
}

/// Logical CPUs that a machine may have: more are not looked at.
const CPUS_MAX: usize = 1 << 14;

impl Topology {
    /// Of this machine. What it does not say is taken as one core for each logical CPU, all on one memory.
    pub fn of_this_machine() -> Self {
        let parallelism = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::read(Path::new("/"), parallelism)
    }

    /// From the files of Linux below `root`.
    fn read(root: &Path, parallelism: usize) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let status = text("proc/self/status");
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
        let nodes = fs::read_dir(root.join("sys/devices/system/node")).into_iter().flatten().flatten();
        let mut nodes: Vec<(usize, String)> = nodes
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
                Some((number, fs::read_to_string(entry.path().join("cpulist")).ok()?))
            })
            .collect();
        nodes.sort_unstable();
        let node = |cpu: usize| nodes.iter().position(|(_, list)| cpus(list).any(|range| range.contains(&cpu)));
        let mut cores: Vec<(Option<usize>, usize)> = Vec::new();
        for cpu in cpus(allowed).flatten() {
            let siblings = text(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
            let known = |other: &usize| cores.iter().any(|(_, core)| core == other);
            if !cpus(&siblings).flatten().any(|other| known(&other)) {
                cores.push((node(cpu), cpu));
            }
        }
        cores.sort_unstable();
        let mut memories: Vec<_> = cores.iter().map(|(node, _)| node).collect();
        memories.dedup();
        let memories = memories.len().max(1);
        Self { cores: cores.into_iter().map(|(_, cpu)| cpu).collect(), memories, parallelism }
    }

    /// Threads that are worth having: one for each core, or fewer where the process is given less time than that.
    pub fn threads(&self) -> usize {
        if self.cores.is_empty() { self.parallelism } else { self.cores.len().min(self.parallelism) }
    }

    /// Logical CPUs that this process may use.
    pub fn parallelism(&self) -> usize {
        self.parallelism
    }

    /// Memories that the cores are near to: one, where the machine does not say.
    pub fn memories(&self) -> usize {
        self.memories
    }

    /// The CPU that thread `thread` of `threads` should stay on, if it should.
    pub(crate) fn place(&self, thread: usize, threads: usize) -> Option<usize> {
        // Fewer threads than cores are spread over the memories, whose bandwidths add up.
        (self.memories > 1 && threads <= self.cores.len()).then(|| self.cores[thread * self.cores.len() / threads])
    }
}

/// The ranges of a list like `0-3,8,10-11`; what is not a range is left out.
fn cpus(list: &str) -> impl Iterator<Item = Range<usize>> {
    list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < CPUS_MAX).then_some(first..last + 1)
    })
}

/// Keeps the calling thread on a CPU. Where that cannot be had it stays where the system puts it.
pub(crate) fn stay(cpu: usize) {
    #[cfg(target_os = "linux")]
    {
        let mut set = rustix::thread::CpuSet::new();
        if cpu < rustix::thread::CpuSet::MAX_CPU {
            set.set(cpu);
            let _ = rustix::thread::sched_setaffinity(None, &set);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = cpu;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine as Linux describes it: (allowed, nodes, siblings of each CPU).
    fn machine(name: &str, allowed: &str, nodes: &[&str], siblings: &[&str], parallelism: usize) -> Topology {
        let root = std::env::temp_dir().join(format!("kauri-topology-{name}-{}", std::process::id()));
        let write = |path: String, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/status".to_owned(), &format!("Name:\tkauri\nCpus_allowed_list:\t{allowed}\nx: 1\n"));
        for (index, list) in nodes.iter().enumerate() {
            write(format!("sys/devices/system/node/node{index}/cpulist"), list);
        }
        write("sys/devices/system/node/online".to_owned(), "0-1\n");
        for (cpu, list) in siblings.iter().enumerate() {
            write(format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), list);
        }
        let found = Topology::read(&root, parallelism);
        fs::remove_dir_all(&root).unwrap();
        found
    }

    #[test]
    fn second_threads_of_a_core_are_not_counted() {
        let laptop = machine("laptop", "0-7", &["0-7\n"], &["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"], 8);
        assert_eq!((laptop.threads(), laptop.memories, laptop.parallelism()), (4, 1, 8));
        assert_eq!(laptop.place(0, 4), None, "one memory: the system places threads");
        // Of a core whose first thread is not allowed the second one is.
        let part = machine("part", "1,4-5", &["0-7\n"], &["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"], 3);
        assert_eq!((part.cores.clone(), part.threads()), (vec![1, 4], 2));
        let quota = machine("quota", "0-3", &["0-3\n"], &["0", "1", "2", "3"], 2);
        assert_eq!(quota.threads(), 2);
    }

    #[test]
    fn threads_stand_in_the_order_of_the_memories() {
        let two = machine("two", "0-3", &["0,2", "1,3"], &["0", "1", "2", "3"], 4);
        assert_eq!((two.memories, two.threads()), (2, 4));
        let places = |threads| (0..threads).map(|thread| two.place(thread, threads)).collect::<Vec<_>>();
        assert_eq!(places(4), [Some(0), Some(2), Some(1), Some(3)]);
        assert_eq!(places(2), [Some(0), Some(1)], "one on each memory");
        assert_eq!(places(5), [None; 5], "more threads than cores go where there is time");
    }

    #[test]
    fn a_machine_that_says_nothing_or_nonsense_has_its_parallelism() {
        assert_eq!(Topology::read(Path::new("/nonexistent"), 3).threads(), 3);
        let nonsense = machine("nonsense", "x,7-,4000000000-9999999999,5-2", &["-"], &[], 2);
        assert_eq!((nonsense.threads(), nonsense.place(0, 1)), (2, None));
        let here = Topology::of_this_machine();
        assert!((1..=here.parallelism()).contains(&here.threads()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_stays_where_it_is_put() {
        let here = Topology::of_this_machine();
        let Some(&cpu) = here.cores.last() else {
            println!("skipped: this machine does not say which CPUs are allowed");
            return;
        };
        let set = thread::spawn(move || {
            stay(cpu);
            rustix::thread::sched_getaffinity(None).unwrap()
        });
        let set = set.join().unwrap();
        assert!(set.is_set(cpu) && set.count() == 1, "{set:?}");
    }
}
