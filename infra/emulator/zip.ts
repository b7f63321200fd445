// A zip of one executable file, stored without compression: enough for a function's code, and no dependency.
import { crc32 } from "node:zlib";

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
/** 1980-01-01, the format's first day: the same content gives the same bytes. */
const DATE = 0x0021;
const EXECUTABLE = (0o100755 << 16) >>> 0;

export function zipOf(name: string, content: Buffer): Buffer {
  const path = Buffer.from(name);
  // version, flags, method, time, date, crc, packed, unpacked, length of name, length of extra field
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(DATE, 8);
  common.writeUInt32LE(crc32(content), 10);
  common.writeUInt32LE(content.length, 14);
  common.writeUInt32LE(content.length, 18);
  common.writeUInt16LE(path.length, 22);
  const local = Buffer.concat([uint32(LOCAL), common, path, content]);
  // comment, disk, internal attributes, external attributes, offset
  const rest = Buffer.alloc(14);
  rest.writeUInt32LE(EXECUTABLE, 6);
  const madeByUnix = Buffer.from([20, 3]);
  const central = Buffer.concat([uint32(CENTRAL), madeByUnix, common, rest, path]);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(1, 4);
  end.writeUInt16LE(1, 6);
  end.writeUInt32LE(central.length, 8);
  end.writeUInt32LE(local.length, 12);
  return Buffer.concat([local, central, uint32(END), end]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
