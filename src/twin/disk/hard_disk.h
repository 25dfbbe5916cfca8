#pragma once
#include "drive/device.h"
#include "disk/disk_parameters.h"
#include "link/link.h"
#include "core/counters.h"
namespace twin { class HardDisk final : public Device { public: HardDisk(const DiskParameters&, std::int64_t, Link&, EventQueue&, Counters&){} void start(Nanoseconds, Command&) override{} }; }
