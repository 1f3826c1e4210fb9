/** Owns the bridge in the process of a test, before one resource, for one client without capabilities. */
import { openBridge, type Bridge, type BridgeOptions } from '../../src/agent/bridge/core.ts'
import { DEFAULT_SPEC_NS } from '../../src/wire/names.ts'
import { bridgeFolder } from './bridge.ts'

/** What a bridge is started with where nothing of it matters to the test. */
export function plainOptions(resource: string, stateRoot: string): BridgeOptions {
  return {
    resources: [resource],
    stateRoot,
    accepted: new Set(),
    holdSeconds: 1,
    lingerSeconds: 1,
    allowLoopback: true,
    specNs: DEFAULT_SPEC_NS,
    say: () => undefined,
  }
}

/** `folder`: that of its state. `told`: how often the client was told that the list of tools changed. */
export async function openedBridge(
  resource: string,
): Promise<{ bridge: Bridge; folder: string; told: () => number; close: () => Promise<void> }> {
  const folder = await bridgeFolder()
  const bridge = openBridge(plainOptions(resource, folder.folder), 'client', () => ({}))
  let told = 0
  bridge.onChanged(() => told++)
  const close = async (): Promise<void> => {
    await bridge.close()
    await folder.remove()
  }
  return { bridge, folder: folder.folder, told: () => told, close }
}
