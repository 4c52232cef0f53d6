//! The features that the first tier switches on.

/// The features of the packages that the first tier tests: all but `NOT_AT_FIRST`, and those that
/// are on by default. `--all-features` would switch on that one as well.
pub(super) const OF_FIRST: &str = "--features=\
    arrow-device-arrow/arrow-58,arrow-device-arrow/arrow-59,arrow-device-arrow/arrow-60,\
    arrow-device-capi/cuda,arrow-device-capi/hexagon,arrow-device-capi/metal,\
    arrow-device-capi/oneapi,arrow-device-capi/rocm,arrow-device-capi/software,\
    arrow-device-capi/vpi,arrow-device-capi/vulkan,arrow-device-capi/webgpu,\
    arrow-device-cli/check,arrow-device-cli/files,\
    arrow-device-cuda/cudarc,\
    arrow-device-ipc/ruzstd,\
    arrow-device-testkit/opencl,arrow-device-testkit/vulkan,arrow-device-testkit/webgpu,\
    arrow-device-testkit/wgpu,\
    arrow-device/serde,arrow-device/tracing,\
    grown-capi/cuda,grown-capi/hexagon,grown-capi/metal,grown-capi/oneapi,grown-capi/opencl,\
    grown-capi/rocm,grown-capi/software,grown-capi/vpi,grown-capi/vulkan,grown-capi/webgpu";

/// Builds tonic, which takes a minute: the tier `flight` tests what the command does with it.
#[cfg(test)]
const NOT_AT_FIRST: &str = "arrow-device-cli/flight";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::table::TIERS;
    use super::*;

    /// The features that a manifest declares, but for `default`; the name of the package before
    /// each.
    fn features(manifest: &str) -> Vec<String> {
        let value = |line: &str| line.split('"').nth(1).map(str::to_owned);
        let name = manifest.lines().find(|line| line.starts_with("name = ")).and_then(value);
        let name = name.unwrap_or_default();
        let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        let names = lines.filter(|line| line.starts_with(|first: char| first.is_alphanumeric()));
        let names = names.filter_map(|line| line.split_once(" = ")).map(|(feature, _)| feature);
        names.filter(|feature| *feature != "default").map(|of| format!("{name}/{of}")).collect()
    }

    #[test]
    fn the_first_tier_has_every_feature_but_the_one_that_is_left_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let members = workspace.lines().filter_map(|line| {
            let member = line.trim().strip_prefix('"')?.strip_suffix("\",")?;
            root.join(member).join("Cargo.toml").is_file().then(|| root.join(member))
        });
        let first = TIERS.iter().find(|tier| tier.name == "unit and integration").unwrap();
        let mut expected = Vec::new();
        for member in members {
            let manifest = fs::read_to_string(member.join("Cargo.toml")).unwrap();
            let of_member = features(&manifest);
            let is_listed = |feature: &String| {
                let (package, feature) = feature.split_once('/').unwrap();
                let exclude = format!("--exclude={package}");
                let line = manifest.lines().find(|line| line.starts_with("default = "));
                let is_default = line.is_some_and(|line| line.contains(&format!("\"{feature}\"")));
                !first.command.contains(&exclude.as_str()) && !is_default
            };
            expected.extend(of_member.into_iter().filter(is_listed));
        }
        let listed = OF_FIRST.strip_prefix("--features=").unwrap().split(',').map(str::to_owned);
        let mut listed: Vec<String> = listed.chain([NOT_AT_FIRST.to_owned()]).collect();
        expected.sort();
        // A member may be a default member as well.
        expected.dedup();
        listed.sort();
        assert_eq!(listed, expected);
    }
}
