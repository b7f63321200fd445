// Writes snapshots/ and emulator/templates/. Read the difference before committing it.
import { EMULATOR, SNAPSHOTS, emulatorTemplates, snapshots, write } from "../lib/snapshots.ts";

const wanted = snapshots();
write(SNAPSHOTS, wanted);
const emulator = emulatorTemplates();
write(EMULATOR, emulator);
console.log(`${wanted.size} templates in snapshots/, ${emulator.size} in emulator/templates/`);
