"""Memory resources. All memory of the device is the pool's, since the stand-in for pylibcudf allocates by this package."""

import arrow_device as ad


class CudaAsyncMemoryResource:
    pass


class Counts:
    @property
    def current_bytes(self):
        return ad.device("cuda:0").held["allocated"]


class StatisticsResourceAdaptor:
    allocation_counts = Counts()

    def __init__(self, upstream):
        self.upstream = upstream


def set_current_device_resource(resource):
    assert isinstance(resource.upstream, CudaAsyncMemoryResource)
