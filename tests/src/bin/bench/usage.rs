//! Who used the processor: the run time of a process' threads to the nanosecond, its split into user and system, and
//! what everything else took of the cores meanwhile.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Ticks of /proc a second (USER_HZ): fixed at 100 by the kernel's interface.
const TICK: Duration = Duration::from_millis(10);

/// What `/proc` said at one moment.
pub struct Snapshot {
    at: Instant,
    contender: Times,
    tasks: HashMap<Task, TaskTime>,
    cores: Vec<CoreTicks>,
}

/// What happened between two snapshots.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Run time of all threads of the contender.
    pub run_time: Duration,
    /// Run time of the contender, of the rig, and of the kernel's threads for packets nobody waits for: a packet is
    /// handled by whoever's turn it is.
    pub path: Duration,
    /// How long threads of the contender could have run, and others did.
    pub waited: Duration,
    /// Share of it in user space.
    pub user_share: f64,
    /// Share of the cores in question that neither the contender nor the rig used, at most 1: the largest of them.
    pub others: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Task {
    process: u32,
    thread: u32,
}

#[derive(Clone, Copy, Default)]
struct TaskTime {
    run_ns: u64,
    is_for_packets: bool,
    core: usize,
}

#[derive(Clone, Copy, Default)]
struct Times {
    run_ns: u64,
    waited_ns: u64,
    user_ticks: u64,
    system_ticks: u64,
}

#[derive(Clone, Copy, Default)]
struct CoreTicks {
    /// All but idle and waiting for disks.
    busy: u64,
    /// Time the hypervisor gave to somebody else.
    stolen: u64,
}

impl Snapshot {
    /// Looks at everything, and at the contender last.
    pub fn before(contender: u32) -> Result<Self> {
        let tasks = tasks()?;
        let cores = cores()?;
        Ok(Self {
            contender: times(contender)?,
            at: Instant::now(),
            tasks,
            cores,
        })
    }

    /// Looks at the contender first, and at everything.
    pub fn after(contender: u32) -> Result<Self> {
        let at = Instant::now();
        Ok(Self {
            contender: times(contender)?,
            at,
            cores: cores()?,
            tasks: tasks()?,
        })
    }

    /// From `earlier` to now. `ours` are the processes of the measurement, `cores` those it runs on.
    pub fn since(&self, earlier: &Snapshot, ours: &[u32], cores: &[usize]) -> Usage {
        let elapsed = self.at - earlier.at;
        let user = self.contender.user_ticks - earlier.contender.user_ticks;
        let system = self.contender.system_ticks - earlier.contender.system_ticks;
        let others = cores
            .iter()
            .map(|&core| self.others_on(core, earlier, ours, elapsed))
            .fold(0.0, f64::max);
        Usage {
            run_time: Duration::from_nanos(self.contender.run_ns - earlier.contender.run_ns),
            path: self.path_since(earlier, ours),
            waited: Duration::from_nanos(self.contender.waited_ns - earlier.contender.waited_ns),
            user_share: user as f64 / (user + system).max(1) as f64,
            others,
        }
    }

    fn path_since(&self, earlier: &Snapshot, ours: &[u32]) -> Duration {
        let of_path = self
            .tasks
            .iter()
            .filter(|(task, time)| ours.contains(&task.process) || time.is_for_packets);
        let run_ns = of_path.map(|(task, now)| {
            let before = earlier.tasks.get(task).copied().unwrap_or_default();
            now.run_ns.saturating_sub(before.run_ns)
        });
        Duration::from_nanos(run_ns.sum())
    }

    /// Share of one core that other processes used. Run times of tasks are exact but miss processes that came and went
    /// in between; ticks miss nothing but are samples, so they only count beyond their own error.
    fn others_on(&self, core: usize, earlier: &Snapshot, ours: &[u32], elapsed: Duration) -> f64 {
        const ERROR_OF_TICKS: f64 = 0.04;
        let (mut own, mut foreign) = (0, 0);
        for (task, now) in self.tasks.iter().filter(|(_, time)| time.core == core) {
            let before = earlier.tasks.get(task).copied().unwrap_or_default();
            let ran = now.run_ns.saturating_sub(before.run_ns);
            match ours.contains(&task.process) {
                true => own += ran,
                false => foreign += ran,
            }
        }
        let share = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64();
        let ticks = |count: u64| TICK.mul_f64(count as f64);
        let (now, before) = (self.cores[core], earlier.cores[core]);
        let stolen = share(ticks(now.stolen - before.stolen));
        let busy = share(ticks(now.busy - before.busy));
        let unexplained = busy - share(Duration::from_nanos(own)) - ERROR_OF_TICKS;
        stolen + share(Duration::from_nanos(foreign)).max(unexplained)
    }
}

/// Run time of a process' threads since it was started.
pub fn run_time(process: u32) -> Result<Duration> {
    Ok(Duration::from_nanos(times(process)?.run_ns))
}

/// Run time of a process' threads, kernel threads that work for it included.
fn times(process: u32) -> Result<Times> {
    let mut times = Times::default();
    let folder = format!("/proc/{process}/task");
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        let folder = entry?.path();
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        let schedstat = read("schedstat");
        times.run_ns += number(&schedstat, 0);
        times.waited_ns += number(&schedstat, 1);
        let stat = Stat::parse(&read("stat")).unwrap_or_default();
        times.user_ticks += stat.user_ticks;
        times.system_ticks += stat.system_ticks;
    }
    Ok(times)
}

/// Every task of the machine; one that ends while we look is left out.
fn tasks() -> Result<HashMap<Task, TaskTime>> {
    let mut tasks = HashMap::new();
    for process in numbered("/proc").context("cannot read /proc")? {
        for thread in numbered(&format!("/proc/{process}/task")).unwrap_or_default() {
            let folder = format!("/proc/{process}/task/{thread}");
            let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}"));
            let (Ok(run), Ok(stat)) = (read("schedstat"), read("stat")) else {
                continue;
            };
            let time = TaskTime {
                run_ns: number(&run, 0),
                is_for_packets: stat.contains("(ksoftirqd/"),
                core: Stat::parse(&stat).unwrap_or_default().core,
            };
            tasks.insert(Task { process, thread }, time);
        }
    }
    Ok(tasks)
}

fn numbered(folder: &str) -> std::io::Result<Vec<u32>> {
    Ok(std::fs::read_dir(folder)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

fn number(text: &str, place: usize) -> u64 {
    let word = text.split_whitespace().nth(place);
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The fields of `/proc/.../stat` we read (proc_pid_stat(5)).
#[derive(Default)]
struct Stat {
    user_ticks: u64,
    system_ticks: u64,
    core: usize,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // Numbered from 1, and the second is the name in parentheses, which may hold anything.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        Some(Self {
            user_ticks: field(14)?,
            system_ticks: field(15)?,
            core: usize::try_from(field(39)?).ok()?,
        })
    }
}

fn cores() -> Result<Vec<CoreTicks>> {
    let text = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    Ok(text
        .lines()
        .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
        .map(|line| {
            let ticks: Vec<u64> = line
                .split_whitespace()
                .skip(1)
                .filter_map(|word| word.parse().ok())
                .collect();
            let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
            // user, nice, system, idle, iowait, irq, softirq, steal
            CoreTicks {
                busy: at(0) + at(1) + at(2) + at(5) + at(6),
                stolen: at(7),
            }
        })
        .collect())
}
