//! What the machine is to be like, as text: `devices=2 memory=1048576 seed=3`, and which calls
//! fail: `fail=cuMemAlloc_v2:3:2` has the third such call return 2.

/// The variable that configures a library that nobody configures otherwise.
pub(crate) const VARIABLE: &str = "ARROW_DEVICE_SIMULATED_DRIVER_CONFIG";

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// How many devices there are. With none, initialising says so.
    pub(crate) devices: usize,
    /// Bytes of each device.
    pub(crate) memory: u64,
    pub(crate) seed: u64,
    /// Whether devices may be given access to each other.
    pub(crate) peers: bool,
    /// Whether there is managed memory, and whether the host may touch it while the device works.
    pub(crate) managed: bool,
    pub(crate) concurrent_managed: bool,
    /// Whether the devices share memory with the host, and read ordinary memory.
    pub(crate) coherent: bool,
    /// Whether memory can be allocated in the order of a stream.
    pub(crate) pools: bool,
    /// After so many questions that were answered with "not ready" the device makes progress. 0:
    /// never.
    pub(crate) patience: u64,
    /// Whether freeing plain, pinned or managed memory waits for the device.
    pub(crate) frees_wait: bool,
    /// Whether copies of ordinary host memory are done with it when they return.
    pub(crate) pageable_waits: bool,
    /// Whether handles of what was destroyed are given out again.
    pub(crate) reuses_handles: bool,
    /// Whether the range of an address is that of a reservation with other memory in it.
    pub(crate) reservations: bool,
    /// Whether memory can be mapped by hand, and with access for reading alone.
    pub(crate) mapping: bool,
    pub(crate) read_only: bool,
    /// Whether HIP tells the type of ordinary memory, as of memory that nobody registered.
    pub(crate) unregistered: bool,
    /// Whether a handle of what was destroyed ends the process.
    pub(crate) crashes: bool,
    /// Whether the driver tears itself down in handlers of its own when the process ends.
    pub(crate) teardown: bool,
    /// Whether the driver does what no document promises and nanoarrow's own tests rely on: a
    /// stream is waited for where no context is current, and pinned memory of no bytes is
    /// allocated.
    pub(crate) lenient: bool,
    /// The major number of the compute capability of the devices.
    pub(crate) capability: i32,
    /// What the driver says its version is.
    pub(crate) version: i32,
    /// Calls that return a code and do nothing: the function, which of its calls, and the code.
    pub(crate) fails: Vec<(String, u64, i32)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: 1,
            memory: 1 << 30,
            seed: 0,
            peers: false,
            managed: true,
            concurrent_managed: true,
            coherent: false,
            pools: true,
            patience: 8,
            frees_wait: false,
            pageable_waits: true,
            reuses_handles: false,
            reservations: false,
            mapping: true,
            read_only: true,
            unregistered: false,
            crashes: false,
            teardown: false,
            lenient: false,
            capability: 9,
            version: 0,
            fails: Vec::new(),
        }
    }
}

impl Config {
    /// Reads pairs with spaces between them. An unknown or malformed one is an error.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut config = Self::default();
        for pair in text.split_whitespace() {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("no value: {pair}"))?;
            if key == "fail" {
                config
                    .fails
                    .push(call_that_fails(value).ok_or_else(|| format!("no call: {pair}"))?);
                continue;
            }
            let number: u64 = value.parse().map_err(|_| format!("no number: {pair}"))?;
            match key {
                "devices" => config.devices = number.min(64) as usize,
                "memory" => config.memory = number,
                "seed" => config.seed = number,
                "peers" => config.peers = number != 0,
                "managed" => config.managed = number != 0,
                "concurrent_managed" => config.concurrent_managed = number != 0,
                "coherent" => config.coherent = number != 0,
                "pools" => config.pools = number != 0,
                "patience" => config.patience = number,
                "frees_wait" => config.frees_wait = number != 0,
                "pageable_waits" => config.pageable_waits = number != 0,
                "reuses_handles" => config.reuses_handles = number != 0,
                "reservations" => config.reservations = number != 0,
                "mapping" => config.mapping = number != 0,
                "read_only" => config.read_only = number != 0,
                "unregistered" => config.unregistered = number != 0,
                "crashes" => config.crashes = number != 0,
                "lenient" => config.lenient = number != 0,
                "teardown" => config.teardown = number != 0,
                "capability" => config.capability = i32::try_from(number).unwrap_or(0),
                "version" => config.version = i32::try_from(number).unwrap_or(0),
                _ => return Err(format!("unknown: {pair}")),
            }
        }
        Ok(config)
    }

    pub(crate) fn from_environment() -> Self {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Self::parse(&text).unwrap_or_else(|problem| {
            eprintln!("{VARIABLE}: {problem}");
            Self::default()
        })
    }
}

/// A function's name, the number of the call and the code, with colons between them.
fn call_that_fails(text: &str) -> Option<(String, u64, i32)> {
    let (name, rest) = text.split_once(':')?;
    let (nth, code) = rest.split_once(':')?;
    Some((name.to_owned(), nth.parse().ok()?, code.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_from_text() {
        let config = Config::parse("devices=2 memory=5 seed=9 peers=1 pools=0").unwrap();
        assert_eq!((config.devices, config.memory, config.seed), (2, 5, 9));
        assert_eq!((config.peers, config.pools, config.managed), (true, false, true));
        let fails = Config::parse("fail=cuInit:2:100 fail=cuMemAlloc_v2:1:2").unwrap().fails;
        assert_eq!(fails, [("cuInit".into(), 2, 100), ("cuMemAlloc_v2".into(), 1, 2)]);
        assert!(Config::parse("fail=cuInit").is_err() && Config::parse("fail=cuInit:x:1").is_err());
        assert!(Config::parse("devices").is_err() && Config::parse("colour=3").is_err());
        assert!(Config::parse("devices=many").is_err());
    }
}
