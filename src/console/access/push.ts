/**
 * Owns this browser's own subscription to Web Push. A browser that shows declarative messages needs no
 * worker; any other one gets that of the page. Contract: "Owner API".
 */

/** The data that the API gets about it. */
export interface OwnSubscription {
  endpoint: string
  keys: { p256dh: string; auth: string }
}

interface Browser {
  pushManager?: PushManager
  trustedTypes?: {
    createPolicy(
      name: string,
      rules: { createScriptURL: (text: string) => string },
    ): {
      createScriptURL(text: string): unknown
    }
  }
}

/** A member of the window, which declarative messages need. */
const browser = (): Browser => globalThis as unknown as Browser
const WORKER = 'worker.js'

/** Whether this browser can get messages at all. */
export function canPush(): boolean {
  return browser().pushManager !== undefined || ('serviceWorker' in navigator && 'PushManager' in globalThis)
}

/** Subscribes it with the key of the authority; the browser asks the user, and may refuse. */
export async function subscribePush(base: URL, key: string): Promise<OwnSubscription> {
  const manager = await managerOf(base)
  const options = { userVisibleOnly: true, applicationServerKey: key }
  // An earlier subscription, with another key, would be in the way.
  const before = await manager.getSubscription()
  await before?.unsubscribe()
  const { endpoint, keys } = (await manager.subscribe(options)).toJSON()
  const { p256dh, auth } = keys ?? {}
  if (endpoint === undefined || p256dh === undefined || auth === undefined)
    throw new Error('This browser told nothing that a message could be sent to.')
  return { endpoint, keys: { p256dh, auth } }
}

async function managerOf(base: URL): Promise<PushManager> {
  const own = browser().pushManager
  if (own !== undefined) return own
  const { href } = new URL(WORKER, base)
  const policy = browser().trustedTypes?.createPolicy('usher-worker', { createScriptURL: () => href })
  // This is the only address of the page that becomes a script, and it is fixed here.
  await navigator.serviceWorker.register((policy?.createScriptURL(href) ?? href) as string)
  return (await navigator.serviceWorker.ready).pushManager
}
