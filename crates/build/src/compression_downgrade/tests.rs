use super::*;
use esker_codec::Mode;

fn load(queues_permille: u32, cpu_permille: u32, io_permille: u32, memory_permille: u32) -> Load {
    Load { queues_permille, host: HostPressure { cpu_permille, io_permille, memory_permille } }
}

#[test]
fn the_mode_changes_at_one_threshold_and_back_at_another() {
    let pressures = [0, 799, 800, 700, 600, 599, 600, 799, 1_000, 0];
    let changed = [false, false, true, true, true, false, false, false, true, false];
    let of_one: [fn(u32) -> Load; 4] = [
        |pressure| load(pressure, 0, 0, 0),
        |pressure| load(0, pressure, 0, 0),
        |pressure| load(0, 0, pressure, 0),
        |pressure| load(0, 0, 0, pressure),
    ];
    let others = [Effort::Faster, Effort::Faster, Effort::Denser, Effort::Denser];
    for (load, other) in of_one.into_iter().zip(others) {
        let modes = CompressionDowngrade::default();
        let seen = pressures.map(|pressure| modes.next(WrittenBy::Merge, load(pressure)));
        assert_eq!(seen, changed.map(|changed| if changed { other } else { Effort::Configured }));
    }
}

#[test]
fn a_flush_is_not_denser_a_last_merge_not_faster_and_speed_goes_first() {
    let outputs = [WrittenBy::Flush, WrittenBy::Merge, WrittenBy::LastLevel];
    let efforts = |load| outputs.map(|output| CompressionDowngrade::default().next(output, load));
    let (faster, as_configured, denser) = (Effort::Faster, Effort::Configured, Effort::Denser);
    assert_eq!(efforts(load(0, 0, 900, 0)), [as_configured, denser, denser]);
    assert_eq!(efforts(load(0, 900, 0, 0)), [faster, faster, as_configured]);
    assert_eq!(efforts(load(900, 0, 900, 900)), [faster, faster, as_configured]);
    assert_eq!(efforts(load(0, 0, 0, 0)), [as_configured; 3]);
    let off = KeyspaceOptions::default().compression_under_pressure(false);
    let modes = CompressionDowngrade::default();
    assert_eq!(modes.effort(&off, WrittenBy::Flush, || load(1_000, 0, 0, 0)), as_configured);
}

#[test]
fn fast_codecs_are_left_alone_and_others_become_fast() {
    for codec in Codec::ALL {
        let fast = Effort::Faster.codec(codec);
        assert_eq!(Effort::Faster.codec(fast), fast, "{codec}");
        assert_eq!(Effort::Configured.codec(codec), codec);
        fast.validate().unwrap();
        match codec {
            Codec::Adaptive(options) => {
                assert!(fast.to_string().contains("mode=speed"), "{fast}");
                let denser = Codec::Adaptive(AdaptiveOptions { mode: Mode::Ratio, ..options });
                assert_eq!(Effort::Denser.codec(codec), denser);
            }
            Codec::Zstd { .. } | Codec::ZstdDictionary { .. } | Codec::Lzma { .. } | Codec::Lz4Hc { .. } => {
                assert_eq!(fast, Codec::Lz4);
                assert_eq!(Effort::Denser.codec(codec), codec);
            }
            other => assert_eq!(fast, other),
        }
    }
}
