"""Three actors of Ray on one machine: one reads Parquet onto a device, one filters, one collects. No batch is copied between them.

    python ray_pipeline.py [DEVICE [ADDRESS]]

The device is "ext_dev:0", the software device, unless another one is named, such as "opencl:0". Without the address of a cluster
a small one is started.
"""

import sys
import tempfile

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import ray

import arrow_device as ad
import arrow_device.ray
from arrow_device import share


@ray.remote(num_cpus=0.1)
class Scanner:
    def __init__(self, path, device):
        self.file, self.device = pa.parquet.ParquetFile(path), device

    # What this returns stays here. Ray passes a handle, by which other actors open the memory.
    @ray.method(tensor_transport="arrow_device")
    def scan(self, group):
        [batch] = self.file.read_row_group(group).to_batches()
        # The one copy, from what was read to memory of the device that other processes can open.
        return share.to_shareable(ad.record_batch(batch), self.device)


@ray.remote(num_cpus=0.1)
class Filter:
    @ray.method(tensor_transport="arrow_device")
    def filter(self, batch):
        rows = pa.record_batch(batch.to_host())
        kept = rows.filter(pa.compute.equal(pa.compute.bit_wise_and(rows["x"], 1), 0))
        return share.to_shareable(ad.record_batch(kept), batch.device)


# An actor that receives and returns nothing by handle says so. Ray then receives in a thread of its
# own.
@ray.remote(num_cpus=0.1, enable_tensor_transport=True)
class Collector:
    def __init__(self):
        self.values = []

    def take(self, batch):
        self.values += batch.to_host()["x"].to_pylist()

    def all(self):
        return self.values


def main(device="ext_dev:0", address=None):
    small = {} if address else {"num_cpus": 3, "include_dashboard": False, "object_store_memory": 80 << 20}
    ray.init(address=address, **small)
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        pa.parquet.write_table(pa.table({"x": range(10_000)}), file.name, row_group_size=1000)
        scanner, chooser, collector = Scanner.remote(file.name, device), Filter.remote(), Collector.remote()
        ray.get([collector.take.remote(chooser.filter.remote(scanner.scan.remote(group))) for group in range(10)])
        values = ray.get(collector.all.remote())
    ray.shutdown()
    assert values == list(range(0, 10_000, 2))
    print(f"{len(values)} of 10000 rows, as they should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
