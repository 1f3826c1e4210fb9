/**
 * Owns push messages in a browser that shows none by itself: what came is shown as it stands, and its link is
 * opened. It keeps nothing, asks nobody and sees no request of the page. Contract: "Owner API".
 */

/** Opened alone is what the page itself could: no message leads anywhere else. */
const isOwn = url => URL.parse(url)?.origin === self.location.origin

self.addEventListener('push', event => {
  const { notification } = event.data?.json() ?? {}
  if (notification === undefined) return
  const { title, body, lang, dir, tag, navigate } = notification
  event.waitUntil(self.registration.showNotification(title, { body, lang, dir, tag, data: { navigate } }))
})

self.addEventListener('notificationclick', event => {
  event.notification.close()
  const { navigate } = event.notification.data ?? {}
  if (isOwn(navigate)) event.waitUntil(self.clients.openWindow(navigate))
})
